"""A copy of a model to write with: in bf16, cast once and not at every step, and with fewer, larger products."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.block import Block
from regard.layers.embedding import Embedding


def copied(model: nn.Module, *, compiled: bool = False) -> nn.Module:
    """The model in bf16.  The queries, keys and values of a text are made by one product."""
    made = copy.deepcopy(model).to(torch.bfloat16).eval().requires_grad_(False)
    for block in [part for part in made.modules() if isinstance(part, Block)]:
        join(block.attention)
    if compiled:
        for part in [part for part in made.modules() if isinstance(part, Block | Embedding)]:
            part.compile(dynamic=False)
    return made


@torch.no_grad()
def refresh(made: nn.Module, model: nn.Module) -> None:
    """Weights of the model that have changed, put where those of its copy lie."""
    theirs = dict(model.named_parameters())
    for name, weight in made.named_parameters():
        weight.copy_(theirs[name])


def weights_of(model: nn.Module) -> list[Any]:
    """As long as this is the same, so are the weights."""
    return [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in model.parameters()]


def alike(made: nn.Module, model: nn.Module) -> bool:
    """Whether a copy has a place for each weight, on the same device."""
    pairs = zip(made.parameters(), model.parameters(), strict=False)
    return all(one.shape == other.shape and one.device == other.device for one, other in pairs)


def join(attention: Any) -> None:
    """Lay the weights of its projections end to end, in one tensor of which each is a part."""
    lines = attention.q, attention.k, attention.v
    if all(type(line) is nn.Linear for line in lines):
        product = Product(lines)
        attention.q, attention.k, attention.v = (Part(line, product, n) for n, line in enumerate(lines))


class Product:
    """Several lines of the same input, made together when the first of them is asked for."""

    def __init__(self, lines: tuple[nn.Linear, ...]):
        self.sizes = [line.out_features for line in lines]
        self.weight = torch.cat([line.weight for line in lines])
        self.bias = torch.cat([line.bias for line in lines]) if lines[0].bias is not None else None
        for name, whole in (("weight", self.weight), ("bias", self.bias)):
            for line, part in zip(lines, whole.split(self.sizes) if whole is not None else (), strict=False):
                setattr(line, name, nn.Parameter(part, requires_grad=False))
        self.x: Tensor | None = None
        self.parts: tuple[Tensor, ...] = ()

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:  # (N, W) -> (N, size) each
        if self.x is not x:
            self.x, self.parts = x, F.linear(x, self.weight, self.bias).split(self.sizes, -1)
        return self.parts


class Part(nn.Module):
    """One of the lines."""

    def __init__(self, line: nn.Linear, product: Product, number: int):
        super().__init__()
        self.weight, self.bias, self.product, self.number = line.weight, line.bias, product, number

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, size)
        if torch.compiler.is_compiling():  # compiled code keeps nothing from one call to the next
            return F.linear(x, self.weight, self.bias)
        return self.product(x)[self.number]
