"""A copy of a model to write with: in bf16, cast once and not at every step, its weights laid as few and fast products
want them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.decoding.fused import fuse
from regard.layers.block import Block
from regard.layers.embedding import Embedding

STEP, WHOLE = 8, 64  # kernels of a GPU want rows of a table in steps of 8, and like them in steps of 64
SHAPES = 64  # of steps: each is compiled by itself, and torch would stop at 8


def copied(model: nn.Module, *, compiled: bool = False) -> nn.Module:
    """The model in bf16.  The queries, keys and values of a text are made by one product."""
    made: Any = copy.deepcopy(model).to(torch.bfloat16).eval().requires_grad_(False)
    align(made)
    for block in [part for part in made.modules() if isinstance(part, Block)]:
        join(block.attention)
    if not compiled:
        fuse(made)
    else:
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
        for part in [part for part in made.modules() if isinstance(part, Block | Embedding)]:
            part.compile(dynamic=False)
    made.logits = aligned(made.logits)
    return made


@torch.no_grad()
def refresh(made: nn.Module, model: nn.Module) -> None:
    """Weights of the model that have changed, put where those of its copy lie."""
    theirs = dict(model.named_parameters())
    for name, weight in made.named_parameters():
        weight.copy_(theirs[name])


def alike(made: nn.Module, model: nn.Module) -> bool:
    """Whether a copy has a place for each weight, on the same device."""
    pairs = zip(made.parameters(), model.parameters(), strict=False)
    return all(one.shape == other.shape and one.device == other.device for one, other in pairs)


def join(attention: Any) -> None:
    """Lay the weights of its projections end to end, in one tensor of which each is a part."""
    lines = attention.q, attention.k, attention.v
    if not all(type(line) is nn.Linear for line in lines):
        return
    attention.joined = attention.join()
    for name, whole in zip(("weight", "bias"), attention.joined, strict=True):
        for line, part in zip(lines, () if whole is None else whole.chunk(3), strict=False):
            setattr(line, name, nn.Parameter(part, requires_grad=False))


def align(model: nn.Module) -> None:
    """Let tables of words lie in longer ones, which `aligned` products read."""
    known: dict[Tensor, nn.Parameter] = {}
    for part in [part for part in model.modules() if isinstance(part, nn.Embedding | nn.Linear)]:
        if len(part.weight) % STEP:
            if part.weight not in known:
                known[part.weight] = lengthened(part.weight)
            part.weight = known[part.weight]


def lengthened(weight: Tensor) -> nn.Parameter:  # (V, W)
    """The same, as the beginning of a longer one that it knows as its `whole`."""
    whole = F.pad(weight.detach(), (0, 0, 0, -len(weight) % WHOLE))
    found = nn.Parameter(whole[: len(weight)], requires_grad=False)
    found.whole = whole  # type: ignore[attr-defined]
    return found


def aligned(logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same logits, by products with whole tables, of which only the words are given."""

    def call(states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        with Aligned():
            return logits(states)

    return call


class Aligned(TorchFunctionMode):
    def __torch_function__(
        self, function: Callable, types: Iterable[type], given: tuple = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        call = product if function is F.linear else function
        return call(*given, **(named or {}))


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # (N, W) -> (N, V)
    whole = getattr(weight, "whole", None)
    if whole is None:
        return F.linear(x, weight, bias)
    added = None if bias is None else F.pad(bias, (0, len(whole) - len(weight)))
    return F.linear(x, whole, added)[:, : len(weight)]
