"""Cross-entropy with every word of a table, whose scores are never there all at once (as Liger's fused kernel has it,
Hsu et al., 2024).

Of some targets at a time scores are made, judged, and turned where they lie into their own gradient, of which those of
states and table are made at once.  So nothing as large as (N, V) is kept for the way back.
Letters: N targets, n of them at a time; W width, V words, P rows of the table with those that fill it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.objectives.cross_entropy import FUSED, Sums

AT_ONCE = 2**28  # scores
EVEN = 64  # words: a product with 50,257 of them takes four times as long as one with 50,304


def pays(states: Tensor) -> bool:
    """In half precision on a GPU.  Elsewhere products do not mind an odd number of words."""
    return states.is_cuda and precision_of(states).itemsize == 2 and not torch.compiler.is_compiling()


def precision_of(states: Tensor) -> torch.dtype:
    """That of products."""
    kind = states.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype


def by_table(
    states: Tensor, table: Tensor, bias: Tensor | None, wanted: Tensor, smoothing: float = 0.0
) -> Sums:  # (N, W), (V, W), (V,), (N,)
    """What `cross_entropy` gives of F.linear(states, table, bias)."""
    return ByTable.apply(states, table, bias, wanted, smoothing, torch.is_grad_enabled())


class ByTable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        wanted: Tensor,
        smoothing: float,
        learns: bool,
    ) -> Sums:
        precision, words = precision_of(states), len(table)
        x, whole, judge = states.to(precision), widened(table, precision), compiled() if FUSED.get() else judged
        offset = None if bias is None else widened(bias, precision)
        told: Any = None
        changes: Any = None
        change = torch.empty_like(x)
        with torch.autocast(x.device.type, enabled=False):
            for part in portions(len(x), len(whole)):
                scores = F.linear(x[part], whole, offset)  # (n, W) -> (n, P)
                told = added(told, judge(scores, wanted[part], words, smoothing))
                if learns:
                    torch.mm(scores, whole, out=change[part])
                    changes = added(changes, asked_for(scores, x[part], offset))
        ctx.save_for_backward(change, *(one if one is None else one[:words] for one in changes or (None, None)))
        ctx.mark_non_differentiable(told[1])
        return told

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        asked = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(one * change if needed else None for one, needed in asked), None, None, None


def asked_for(scores: Tensor, x: Tensor, offset: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """What the scores of a portion, (n, P), ask of the table and of its bias; they are their own gradient here."""
    exact = torch.promote_types(x.dtype, torch.float32)  # portions are added up in
    return (scores.mT @ x).to(exact), None if offset is None else scores.sum(0, dtype=exact)


def added(sums: tuple[Any, ...] | None, more: tuple[Any, ...]) -> tuple[Any, ...]:
    """A portion to those before it; the first, which is mostly the only one, takes no kernel."""
    if sums is None:
        return more
    return tuple(one if one is None else one.add_(other) for one, other in zip(sums, more, strict=True))


def judged(scores: Tensor, wanted: Tensor, words: int, smoothing: float) -> Sums:  # (n, P), (n,)
    """The loss, and how often the wanted word came first; scores become their gradient, which is softmax less what was
    wanted.  What fills the table up has scores of 0, and gradients too."""
    real = scores[:, :words]
    right = (real.argmax(-1) == wanted).sum()
    chances = real.log_softmax(-1, dtype=torch.promote_types(real.dtype, torch.float32))
    loss = (smoothing - 1) * chances.gather(1, wanted[:, None]).sum()
    if smoothing:
        loss = torch.add(loss, chances.sum(), alpha=-smoothing / words)
    gradient = chances.exp_().sub_(smoothing / words)
    gradient.scatter_add_(1, wanted[:, None], gradient.new_full((len(wanted), 1), smoothing - 1))
    real.copy_(gradient)
    return loss, right


def judged_wide(scores: Tensor, wanted: Tensor, words: int, smoothing: float) -> Sums:  # (n, P), (n,)
    """The same for compiled code, which reads whole rows of P scores several numbers at a time, and to which a search
    for the first of the largest is dear: that no word came before the wanted one is as much."""
    word = torch.arange(scores.shape[1], device=scores.device)
    real = word < words
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill(~real, -torch.inf)
    own = exact.gather(1, wanted[:, None])
    before = (exact > own) | ((exact == own) & (word < wanted[:, None]))
    chances = exact.log_softmax(-1)
    loss = -(1 - smoothing) * chances.gather(1, wanted[:, None]).sum()
    if smoothing:
        loss = loss - smoothing / words * chances.masked_fill(~real, 0.0).sum()
    asked = (word == wanted[:, None]).to(exact.dtype)
    gradient = chances.exp() - (1 - smoothing) * asked - smoothing / words
    right = (before.sum(-1) == 0).sum()
    scores.copy_(gradient.masked_fill(~real, 0.0))
    return loss, right


@cache
def compiled() -> Callable[[Tensor, Tensor, int, float], Sums]:
    return torch.compile(judged_wide)


def widened(x: Tensor, precision: torch.dtype) -> Tensor:  # (V, ...) -> (P, ...)
    """In the precision of products, filled up with zeros to an even number of words."""
    wide = x.new_empty(-(-len(x) // EVEN) * EVEN, *x.shape[1:], dtype=precision)
    wide[: len(x)], wide[len(x) :] = x.detach(), 0
    return wide


def portions(targets: int, words: int) -> Iterator[slice]:
    together = max(AT_ONCE // words // 256 * 256, 256)
    return (slice(start, start + together) for start in range(0, targets or 1, together))
