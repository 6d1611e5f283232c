"""What an output rests on, in four ways, since attention alone is no explanation (Jain and Wallace, 2019): attention,
rollout, the gradient of the output with respect to the weights, and what is lost when a token is hidden.

Letters: B rows, H heads, Q queries, K keys over which is explained, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.mask import FULL, chosen_keys
from regard.attention.watch import Call, asked

BUDGET = 4096  # tokens that are read to hide each token once: of longer texts several are hidden together,
FEWEST = 8  # in at least so many turns
DIRECTIONS = 16  # in which the gradient of a state is taken


@dataclass(frozen=True, eq=False)
class Question:
    """An output as a function of the tokens on which it may rest."""

    model: nn.Module
    ids: Sequence[int]
    answer: Callable[[list[list[int]]], Tensor]  # of rows of tokens: (B, 1), how probable it is; or a state, (B, W)
    looks: Callable[[str], bool]  # whether the attention of this name looks at these tokens
    blank: int | None = None  # what stands for a hidden token; None: nobody may look at it


def explained(question: Question, attention: np.ndarray, rollout: np.ndarray, keys: int) -> np.ndarray:  # (4, K)
    """The four explanations; tokens on which the output cannot rest, those behind it, have 0."""
    found = np.zeros((4, keys))
    count = len(question.ids)
    rows = attention[:count], rollout[:count], gradient_by_attention(question), occlusion(question)
    for number, row in enumerate(rows):
        found[number, :count] = row
    total = abs(found).sum(-1, keepdims=True)
    return np.divide(found, total, out=np.zeros_like(found), where=total > 0)


def gradient_by_attention(question: Question) -> np.ndarray:  # (K,)
    """How the output changes as all looks at a token become stronger: gradient times weight, summed over layers, heads
    and queries.  Of a state, how far it moves, judged by some directions."""
    with torch.inference_mode(False), torch.enable_grad(), by_definition(question.model) as weights:
        output = question.answer([list(question.ids)])[0]  # (1,) or (W,)
        chosen = [one for name, one in weights if question.looks(name)]
        if not chosen or not output.requires_grad:
            return np.zeros(len(question.ids))
        changes = torch.stack([change(output @ direction, chosen) for direction in directions(output)])
    found = changes[0] if len(output) == 1 else changes.square().mean(0).sqrt()
    return found.float().cpu().numpy()


def directions(output: Tensor) -> Tensor:  # (W,) -> (directions, W)
    if len(output) == 1:
        return torch.ones_like(output)[None]
    chance = torch.Generator().manual_seed(0)  # the same for all, so that explanations can be compared
    return torch.randn(DIRECTIONS, len(output), generator=chance).to(output)


def change(output: Tensor, weights: list[Tensor]) -> Tensor:  # (), (1, H, Q, K) each -> (K,)
    slopes = torch.autograd.grad(output, weights, retain_graph=True, allow_unused=True)
    parts = [(slope * one).sum((0, 1, 2)) for slope, one in zip(slopes, weights, strict=True) if slope is not None]
    return torch.stack(parts).sum(0).detach() if parts else weights[0].new_zeros(weights[0].shape[-1])


@contextmanager
def by_definition(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Every attention inside is computed by its definition, from weights that gradients can be taken of: these, (B, H,
    Q, K), with their names, in the order of their running."""
    weights: list[tuple[str, Tensor]] = []

    def hook(name: str) -> Any:
        def instead(attention: Attention, given: tuple[Any, ...], named: dict[str, Any], _: Tensor) -> Tensor:
            x, memory, rows, mask, start, bias = asked(*given, **named)
            q, own = attention.split(attention.q(x)), (attention.score, attention.position, attention.route)
            one = Call(name, q, memory, rows, mask, rows.at + start, bias, *own).weights()
            one = one if one.requires_grad else one.requires_grad_()
            weights.append((name, one))
            return attention.out(attention.route.mixed(one, memory, rows, mask).flatten(1))

        return instead

    with ExitStack() as stack:
        for name, part in attentions(model):
            stack.callback(part.register_forward_hook(hook(name), with_kwargs=True).remove)
        yield weights


def attentions(model: nn.Module) -> list[tuple[str, Attention]]:
    return [(name, part) for name, part in model.named_modules() if isinstance(part, Attention)]


@torch.inference_mode()
def occlusion(question: Question) -> np.ndarray:  # (K,)
    """What is lost when a token is hidden: log-probability, or 1 - cosine of a state.  Of a long text tokens are hidden
    several at once, and share what is lost."""
    count = len(question.ids)
    before = question.answer([list(question.ids)])
    turns = min(max(BUDGET // count, FEWEST), count)
    turn = torch.arange(count) * turns // count  # (K,) when each token is hidden
    after = without(question, turn[None] == torch.arange(turns)[:, None])
    lost = before - after if before.shape[1] == 1 else 1 - F.cosine_similarity(before, after)[:, None]
    return (lost[:, 0].cpu() / turn.bincount())[turn].float().numpy()


def without(question: Question, hidden: Tensor) -> Tensor:  # (turns, K) -> (turns, 1) or (turns, W)
    """The answers, each without the tokens that are hidden in its turn."""
    if question.blank is None:
        with hiding(question, ~hidden):
            return question.answer([list(question.ids)] * len(hidden))
    return question.answer(torch.where(hidden, question.blank, torch.tensor(question.ids)).tolist())


@contextmanager
def hiding(question: Question, shown: Tensor) -> Iterator[None]:  # (B, K)
    """Nobody looks at what is not shown; who may look at nothing else looks at nothing."""

    def hook(_: Attention, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        x, memory, rows, mask, start, bias = asked(*given, **named)
        mask = (mask or FULL) & chosen_keys(shown.to(x.device))
        return (x, memory, rows, mask, start, bias), {}

    with ExitStack() as stack:
        for name, part in attentions(question.model):
            if question.looks(name):
                stack.callback(part.register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield
