"""A stack of layers, forwards and backwards, as one launch each: CUDA graphs.

A GPU is done with a small batch sooner than a CPU has launched its kernels one by one.  A graph launches all of them at
once, but is for one shape alone: so batches are rounded up to a few shapes by empty rows and by one row of zeros, which
lies behind the others, and which nobody looks at.  Pictures have one shape already.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from regard.layers.stack import Stack
from regard.recording import recording
from regard.rows import Rows

LARGEST = 2**24  # numbers of a state, tokens times width: from here on kernels take longer than their launches
FEWEST = 32  # rows that are equally long other than by chance
SHAPES = 8  # for each doubling of the tokens
WARM_UP = 3  # passes before a graph is recorded: libraries make themselves ready in the first ones


@contextmanager
def replayed(module: nn.Module) -> Iterator[None]:
    """In here, every stack in the module that reads whole rows does so by graphs, where it pays."""
    stacks = [one for one in module.modules() if isinstance(one, Stack) and one.distances is None]
    for stack in stacks:
        stack.read = Graphs(stack)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for stack in stacks:
            del stack.read


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


class Graphs:
    """A stack's `read`, by one graph a shape."""

    def __init__(self, stack: Stack):
        self.stack = stack
        learned = {name: p for name, p in stack.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(learned), list(learned.values())
        self.gradients = [torch.empty_like(p) for p in self.parameters]  # where all graphs put them
        self.graphs: dict[tuple[Shape, torch.dtype], Graph] = {}
        self.user: Callable[[], User | None] = lambda: None  # who read by a graph, and has not gone back yet

    @cached_property
    def pool(self) -> Any:
        """Memory that the graphs share, for no two of them are at work at once."""
        return torch.cuda.graph_pool_handle()

    def __call__(self, x: Tensor, rows: Rows, source: tuple[Tensor, Rows] | None = None) -> Tensor:  # (N, W) -> (N, W)
        if source is not None or not self.pays(x, rows) or self.user() is not None:
            return type(self.stack).read(self.stack, x, rows, source)
        shape = Shape.of(rows)
        key = shape, x.dtype
        if key not in self.graphs:
            self.keep_what_was_summed()
            self.graphs[key] = Graph(self, shape, x, shape.offsets(rows))
        filled = F.pad(x, (0, 0, 0, shape.tokens - rows.total))
        return Replay.apply(self.graphs[key], filled, shape.offsets(rows), *self.parameters)[: rows.total]

    def pays(self, x: Tensor, rows: Rows) -> bool:
        learns = self.stack.training and torch.is_grad_enabled() and x.requires_grad
        watched = any(getattr(part, "watchers", None) for part in self.stack.modules())
        return learns and x.is_cuda and 0 < x.numel() < LARGEST and not watched

    def keep_what_was_summed(self) -> None:
        """Gradients of an earlier micro-batch lie where the next ones are about to: move them."""
        for parameter, place in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not None and parameter.grad.data_ptr() == place.data_ptr():
                parameter.grad = parameter.grad.clone()


class Graph:
    """Both passes in one shape, and the tensors they read and write."""

    def __init__(self, graphs: Graphs, shape: Shape, like: Tensor, offsets: Tensor):
        self.graphs = graphs
        self.x = like.new_zeros(shape.tokens, like.shape[1]).requires_grad_()
        # The same numbers as leaves of their own: those of the parameters may be known to autograd by another stream
        self.leaves = [parameter.detach().requires_grad_() for parameter in graphs.parameters]
        self.shape, self.offsets = shape, offsets
        self.forwards, self.backwards = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        chance = torch.cuda.get_rng_state(like.device)  # what is dropped must not depend on when this is recorded
        self.record(like.device)
        torch.cuda.set_rng_state(chance, like.device)

    def record(self, device: torch.device) -> None:
        beside = torch.cuda.Stream(device)
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                y = self.read()
                self.go_back(y, torch.zeros_like(y))
        torch.cuda.current_stream(device).wait_stream(beside)
        with recording(self.forwards, self.graphs.pool, beside):
            y = self.read()
        self.y, self.change = y.detach(), torch.zeros_like(y)
        with recording(self.backwards, self.graphs.pool, beside):
            self.found, self.used = self.go_back(y, self.change)

    def go_back(self, y: Tensor, change: Tensor) -> tuple[Tensor, list[bool]]:
        """The gradient of what came in, and which parameters have one, now lying where all graphs put them."""
        found, *gradients = torch.autograd.grad(y, [self.x, *self.leaves], change, allow_unused=True)
        pairs = zip(self.graphs.gradients, gradients, strict=True)
        used = [(place, gradient) for place, gradient in pairs if gradient is not None]
        torch._foreach_copy_([place for place, _ in used], [gradient for _, gradient in used])
        return found, [gradient is not None for gradient in gradients]

    def read(self) -> Tensor:
        rows = Rows(self.offsets, self.shape.tokens, self.shape.longest)
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        # no cache: weights that are kept in half precision would not be made again, once the weights have changed
        with torch.autocast("cuda", dtype, enabled, cache_enabled=False):
            leaves = dict(zip(self.graphs.names, self.leaves, strict=True))
            return functional_call(self.graphs.stack, leaves, (self.x, rows))[0]


class Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: Graph, x: Tensor, offsets: Tensor, *parameters: Tensor) -> Tensor:
        ctx.graph, ctx.user = graph, User()
        graph.graphs.user = weakref.ref(ctx.user)
        graph.x.detach().copy_(x)
        graph.offsets.copy_(offsets)
        graph.forwards.replay()
        return graph.y.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:
        graph: Graph = ctx.graph
        graph.graphs.keep_what_was_summed()
        graph.change.copy_(change)
        graph.backwards.replay()
        places = zip(graph.graphs.gradients, graph.used, strict=True)
        return None, graph.found.detach(), None, *(place.detach() if used else None for place, used in places)


class User:
    """Lives as long as the way back to a pass does."""
