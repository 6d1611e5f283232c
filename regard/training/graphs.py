"""A training's passes as one launch each: CUDA graphs of a stack of layers, or of all that is asked.

A GPU is done with a small batch sooner than a CPU has launched its kernels one by one.  A graph launches all of them at
once, but is for one shape alone.  Small pictures have one.  Batches of text are rounded up to a few shapes, by empty
rows and by one row of zeros, which lies behind the others, and which nobody looks at: of these the stack is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from regard.layers.stack import Stack
from regard.objectives.objective import Asked, Batch, Result
from regard.rows import Rows, Tokens
from regard.training.recorded import Recorded

LARGEST = 2**24  # numbers of a state, tokens times width: from here on kernels take longer than their launches
FEWEST = 32  # rows that are equally long other than by chance
SHAPES = 8  # for each doubling of the tokens


@contextmanager
def replayed(module: nn.Module) -> Iterator[None]:
    """In here, what is asked is judged by graphs, where its batches have one shape; else every stack in the module that
    reads whole rows does so, where it pays."""
    places: list[tuple[nn.Module, str, Any]]
    if isinstance(module, Asked) and module.objective.steady:
        places = [(module, "forward", Judged(module))]
    else:
        stacks = (one for one in module.modules() if isinstance(one, Stack) and one.distances is None)
        places = [(stack, "read", Read(stack)) for stack in stacks]
    for owner, name, by_graphs in places:
        setattr(owner, name, by_graphs)
    try:
        yield
    finally:
        for owner, name, _ in places:
            delattr(owner, name)


class Whole(nn.Module):
    """All that is asked, by a name of its own: that of `Asked` is taken by its graphs."""

    def __init__(self, asked: Asked):
        super().__init__()
        self.model, self.objective = asked.model, asked.objective

    def forward(self, batch: Batch) -> Result:
        return self.objective.judge(self.model, batch)


class Judged:
    """How well a batch is answered, by one graph a shape."""

    def __init__(self, asked: Asked):
        self.whole = Whole(asked)
        self.recorded = Recorded(self.whole)
        self.parts: list[str] = []  # names of what is told beside the loss

    def __call__(self, batch: Batch) -> Result:
        tensors = {name: part.ids if isinstance(part, Tokens) else part for name, part in batch.items()}
        if not self.pays(tensors):
            return self.whole(batch)

        def judge(leaves: dict[str, Tensor], *given: Tensor) -> list[Tensor]:
            parts = zip(batch.items(), given, strict=True)
            same = {name: Tokens(ids, part.rows) if isinstance(part, Tokens) else ids for (name, part), ids in parts}
            result: Result = functional_call(self.whole, leaves, (same,))
            self.parts = list(result.parts)
            return [result.loss, result.count, *result.parts.values()]

        key = tuple((name, part.shape, part.dtype) for name, part in tensors.items())
        found = self.recorded(key, judge, [*tensors.values()])
        loss, count, *parts = (one.clone() for one in found)  # the next batch's will lie where these do
        return Result(loss, count, dict(zip(self.parts, parts, strict=True)))

    def pays(self, tensors: dict[str, Any]) -> bool:
        there = all(isinstance(part, Tensor) and part.is_cuda for part in tensors.values())
        return there and self.whole.objective.training and torch.is_grad_enabled() and not self.recorded.busy


@dataclass(frozen=True)
class Shape:
    """What a graph is for."""

    tokens: int
    rows: int
    longest: int  # a bound

    @classmethod
    def of(cls, rows: Rows) -> Shape:
        if rows.is_even and len(rows) >= FEWEST:
            return cls(rows.total, len(rows), rows.longest)
        tokens, count = rounded(rows.total + 1), -(-(len(rows) + 1) // 8) * 8  # the last row has a token or more
        longest = doubled(max(rows.longest, tokens - rows.total))
        return cls(tokens, count, 2 * longest if tokens == count * longest else longest)  # or else they would seem even

    def offsets(self, rows: Rows) -> Tensor:  # (rows + 1,)
        """Those of the rows, of empty ones behind them, and of the last."""
        if self.tokens == rows.total:
            return rows.offsets
        return F.pad(F.pad(rows.offsets, (0, self.rows - len(rows) - 1), value=rows.total), (0, 1), value=self.tokens)


def rounded(tokens: int) -> int:
    step = max(doubled(tokens) // (2 * SHAPES), 8)
    return -(-tokens // step) * step


def doubled(number: int) -> int:
    """The least power of two that is not below it."""
    return 1 << max(number - 1, 0).bit_length()


class Read:
    """A stack's `read`, by one graph a shape."""

    def __init__(self, stack: Stack):
        self.stack, self.recorded = stack, Recorded(stack)

    def __call__(self, x: Tensor, rows: Rows, source: tuple[Tensor, Rows] | None = None) -> Tensor:  # (N, W) -> (N, W)
        if source is not None or not self.pays(x):
            return type(self.stack).read(self.stack, x, rows, source)
        shape = Shape.of(rows)

        def read(leaves: dict[str, Tensor], x: Tensor, offsets: Tensor) -> list[Tensor]:
            return [functional_call(self.stack, leaves, (x, Rows(offsets, shape.tokens, shape.longest)))[0]]

        filled = F.pad(x, (0, 0, 0, shape.tokens - rows.total))
        [y] = self.recorded((shape, x.dtype), read, [filled, shape.offsets(rows)])
        return y[: rows.total]

    def pays(self, x: Tensor) -> bool:
        learns = self.stack.training and torch.is_grad_enabled() and x.requires_grad
        watched = any(getattr(part, "watchers", None) for part in self.stack.modules())
        return learns and x.is_cuda and 0 < x.numel() < LARGEST and not watched and not self.recorded.busy
