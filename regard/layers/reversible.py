"""Layers whose inputs can be told from their outputs, so that none need be kept for the way back (RevNet, Gomez et al.,
2017; in a Transformer, Reformer, Kitaev et al., 2020).

Letters: N tokens, W width of each of two streams that lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.pieces import in_pieces
from regard.errors import UsageProblem
from regard.layers.block import Block, Context, Trace
from regard.layers.norm import NORMS, in_precision
from regard.layers.stack import Stack, StackConfig
from regard.rows import Rows


class ReversibleStack(Stack):
    """Two streams: what attention says of the second is added to the first, and what the feed-forward layer says of the
    first to the second.  Subtracting the same again, in reverse, gives back what came in."""

    def __init__(self, config: StackConfig):
        super().__init__(config)
        block = config.block
        if not block.norm_first or block.cross or config.buckets or config.residual_scores:
            raise UsageProblem(
                "reversible layers norm first, and have no cross-attention and no bias: set "
                "stack.block.norm_first=true, stack.block.cross=false, stack.buckets=0 and stack.residual_scores=false"
            )
        self.norm = NORMS[block.norm](2 * block.width, block.epsilon) if config.final_norm else nn.Identity()

    def forward(
        self,
        x: Tensor,  # (N, 2 W)
        rows: Rows,
        source: tuple[Tensor, Rows] | None = None,
        was: list[Trace] | None = None,
        start: Tensor | int = 0,
    ) -> tuple[Tensor, list[Trace]]:
        see = Context(rows, self.mask, source, start)
        if not self.goes_back(x):
            return super().forward(x, rows, source, was, start)
        self.check(see, was)
        layers = [Layer(cast(Block, self.blocks[number]), see) for number in self.order]
        weights = [weight for weight in self.blocks.parameters() if weight.requires_grad]
        normed = not isinstance(self.norm, nn.Identity)
        return self.norm(Reversed.apply(x, layers, normed, *weights)), [Trace() for _ in layers]

    def read(self, x: Tensor, rows: Rows, source: tuple[Tensor, Rows] | None = None) -> Tensor:  # (N, 2 W) -> (N, 2 W)
        return self(x, rows, source)[0]

    def goes_back(self, x: Tensor) -> bool:
        """Whether there is a way back on which to make layers anew.  Who watches them sees them once."""
        watched = any(getattr(part, "watchers", None) for part in self.modules())
        return self.training and torch.is_grad_enabled() and x.requires_grad and not watched

    def each(self, x: Tensor, see: Context, was: list[Trace] | None = None) -> Iterator[tuple[Tensor, Trace]]:
        self.check(see, was)
        for number in self.order:
            x = torch.cat(Layer(cast(Block, self.blocks[number]), see).run(*x.chunk(2, -1)), -1)
            yield x, Trace()

    def check(self, see: Context, was: list[Trace] | None) -> None:
        if see.source or any(trace.own for trace in was or []):
            raise UsageProblem("reversible layers read whole texts: they keep nothing with which to read on")


@dataclass(eq=False)
class Layer:
    """A block as it runs once, and all that chance decided in it: seeds, and buckets, a few bytes a token."""

    block: Block
    see: Context
    seeds: Sequence[int] = field(default_factory=lambda: torch.randint(2**31, (3,)).tolist())
    drawn: Any = None

    def run(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:  # (N, W) each
        a = a + self.attended(b)
        return a, b + self.fed(a)

    def attended(self, b: Tensor) -> Tensor:
        block, see = self.block, self.see
        y = in_precision(block.attention_residual.before(b))
        with seeded(self.seeds[0], b):
            memory = block.attention.remember(y, see.rows, see.start, self.drawn)
        self.drawn = block.attention.route.drawn(memory)
        with seeded(self.seeds[1], b):
            return block.attention_residual.dropout(block.attention(y, memory, see.rows, see.mask, see.start))

    def fed(self, a: Tensor) -> Tensor:
        residual, feed = self.block.feed_residual, self.block.feed
        with seeded(self.seeds[2], a):  # in pieces: its inner layer is wide
            return in_pieces(lambda piece: residual.dropout(feed(residual.before(piece))), a)


@contextmanager
def seeded(seed: int, x: Tensor) -> Iterator[None]:
    """What is dropped in here follows from the seed alone; outside, chance goes on as if nothing had been."""
    with torch.random.fork_rng([x.device] if x.is_cuda else []):
        torch.manual_seed(seed)
        yield


class Reversed(torch.autograd.Function):
    """All layers, of which only what comes out is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: list[Layer], normed: bool, *weights: Tensor) -> Tensor:
        ctx.layers, ctx.normed, ctx.weights = layers, normed, weights
        kind = x.device.type
        ctx.precision = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), False
        a, b = x.chunk(2, -1)
        with torch.autocast(*ctx.precision):  # weights in half precision that are kept now would know no gradient
            for layer in layers:
                a, b = layer.run(a, b)
        ctx.streams = [a, b]  # not among the saved tensors, which live until the way back has ended
        return torch.cat([a, b], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:
        """Streams and their changes are overwritten as layers are undone: there is nothing else as large."""
        if not ctx.streams:
            raise RuntimeError("reversible layers go back once: what they were to begin with is gone")
        b, a = ctx.streams.pop(), ctx.streams.pop()
        change = change if ctx.normed else change.clone()  # what a norm hands back is nobody else's
        da, db = change.chunk(2, -1)
        found: dict[Tensor, Tensor] = {}
        with torch.autocast(*ctx.precision):
            for layer in reversed(ctx.layers):
                undo(layer.fed, layer.block, (a, da), (b, db), found)
                undo(layer.attended, layer.block, (b, db), (a, da), found)
        return change, None, None, *(found.get(weight) for weight in ctx.weights)


def undo(
    said: Any, block: nn.Module, x: tuple[Tensor, Tensor], y: tuple[Tensor, Tensor], found: dict[Tensor, Tensor]
) -> None:
    """Of y = before + said(x), each with its change: y becomes what was before, and the change of x grows by what
    said(x) asks for."""
    weights = [weight for weight in block.parameters() if weight.requires_grad]
    with torch.enable_grad():
        given = x[0].detach().requires_grad_()
        out = said(given)
    own, *changes = torch.autograd.grad(out, [given, *weights], y[1].to(out.dtype), allow_unused=True)
    for weight, one in zip(weights, changes, strict=True):
        if one is not None:
            found[weight] = found[weight] + one if weight in found else one
    y[0].sub_(out.detach())
    x[1].add_(own)
