"""Cross-entropy over a large vocabulary, at a few bytes a logit.

torch's own makes float32 copies of logits in half precision, keeps their log-softmax and passes over gradients of both:
with 50,000 words a quarter of a GPU's step.  Here logits alone are kept, and their gradient is made from them.
Letters: N targets, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

AT_ONCE = 2**26  # logits, of which there are copies in float32 for a moment
FUSED: ContextVar[bool] = ContextVar("fused", default=False)

Sums = tuple[Tensor, Tensor]


@contextmanager
def fused_losses() -> Iterator[None]:
    """In here it is compiled, which makes one kernel of each way."""
    before = FUSED.set(True)
    try:
        yield
    finally:
        FUSED.reset(before)


def cross_entropy(logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Sums:  # (N, V), (N,)
    """Summed over targets, with the Transformer paper's label smoothing; and how often the wanted word came first."""
    if torch.compiler.is_compiling():
        return by_torch(logits, wanted, smoothing)
    if FUSED.get():
        return compiled()(logits, wanted, smoothing)
    return CrossEntropy.apply(logits, wanted, smoothing)


def by_torch(logits: Tensor, wanted: Tensor, smoothing: float) -> Sums:
    """The definition.  A sum of half precision would be in half precision."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    loss = F.cross_entropy(exact, wanted, label_smoothing=smoothing, reduction="sum")
    return loss, (logits.argmax(-1) == wanted).sum()


@cache
def compiled() -> Callable[[Tensor, Tensor, float], Sums]:
    return torch.compile(by_torch)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, smoothing: float) -> Sums:
        precision = torch.promote_types(logits.dtype, torch.float32)
        told = torch.empty(len(wanted), dtype=precision, device=logits.device)  # the log-probability of what was wanted
        loss, right = told.new_zeros(()), wanted.new_zeros(())
        for part in portions(logits):
            chances = logits[part].log_softmax(-1, dtype=precision)  # (n, V)
            told[part] = chances.gather(1, wanted[part, None])[:, 0]
            right += (logits[part].argmax(-1) == wanted[part]).sum()
            if smoothing:
                loss -= smoothing * chances.mean(-1).sum()
        ctx.save_for_backward(logits, wanted, told)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(right)
        return loss - (1 - smoothing) * told.sum(), right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        """softmax(logits) - what was wanted.  The places of what was wanted are put in last, in full precision: half
        of it would not tell 0.999 from 1, whose difference they are."""
        logits, wanted, told = ctx.saved_tensors
        gradient, even = torch.empty_like(logits), ctx.smoothing / logits.shape[-1]
        for part in portions(logits):
            torch.softmax(logits[part], -1, dtype=logits.dtype, out=gradient[part])
            if even:
                gradient[part] -= even
            gradient[part] *= change
        there = (told.expm1() + (ctx.smoothing - even)) * change
        return gradient.scatter_(1, wanted[:, None], there[:, None].to(gradient.dtype)), None, None


def portions(logits: Tensor) -> Iterator[slice]:
    rows = max(AT_ONCE // max(logits.shape[-1], 1), 1)
    return (slice(start, start + rows) for start in range(0, len(logits), rows))
