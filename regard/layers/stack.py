"""Layers on top of each other: the body of every Transformer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.mask import CAUSAL
from regard.attention.memory import Choice, Room
from regard.attention.position import Buckets
from regard.errors import UsageProblem
from regard.layers.block import Block, BlockConfig, Context, Trace
from regard.layers.norm import NORMS
from regard.layers.sizes import DEEPEST, check_sizes
from regard.rows import Rows


@dataclass(frozen=True)
class StackConfig:
    layers: int = 6
    distinct: int | None = None  # how many blocks of their own the layers have; None: each one, as usual (ALBERT: 1)
    causal: bool = False
    final_norm: bool = False  # wanted where blocks norm first: their last sum is not normed otherwise
    buckets: int = 0  # distances told apart by a bias that all layers share (T5); 0: none
    furthest: int = 128  # from which on distances are alike
    residual_scores: bool = False  # a layer adds the logits of the one below to its own (RealFormer, He et al. 2020)
    block: BlockConfig = field(default_factory=BlockConfig)

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "distinct", largest=DEEPEST)
        check_sizes(self, *["buckets"] * bool(self.buckets), "furthest")


class Stacked:
    """For the config of a model with one stack, whose sizes are the model's."""

    stack: StackConfig

    def check_stack(self) -> None:
        """Whether a model with this one stack can be: asked of a whole config only."""
        if self.stack.block.cross:
            raise UsageProblem("stack.block.cross must be false: a model with one stack has no source to attend to")

    @property
    def width(self) -> int:
        return self.stack.block.width

    @property
    def layers(self) -> int:
        return self.stack.layers

    @property
    def dropout(self) -> float:
        return self.stack.block.dropout


@dataclass(frozen=True, eq=False)
class Written:
    """How far each row has been written: the memories of every layer, and the place of the next token."""

    traces: list[Trace]
    at: Tensor  # (B,)

    def select(self, chosen: Tensor) -> Written:
        """Of the chosen rows.  Those that share a source are chosen together, as many as before."""
        source = self.traces[0].source
        each = len(self.at) // max(len(source.rows), 1) if source else 1
        choice = Choice(chosen)
        choices = choice, choice.shared(each)
        return Written([trace.select(*choices) for trace in self.traces], self.at[chosen])


@lru_cache(maxsize=16)
def one_each(count: int, device: torch.device) -> Rows:
    """Rows of one token, as every step of writing has them: made once, with what was asked of them."""
    with torch.inference_mode(False):
        return Rows.even(count, 1, device)


class Stack(nn.Module):
    def __init__(self, config: StackConfig):
        super().__init__()
        distinct = config.distinct or config.layers
        self.blocks = nn.ModuleList(Block(config.block) for _ in range(distinct))
        self.order = [number * distinct // config.layers for number in range(config.layers)]  # which block a layer is
        block = config.block
        self.norm = NORMS[block.norm](block.width, block.epsilon) if config.final_norm else nn.Identity()
        shape = block.attention.heads, config.buckets, config.furthest
        self.distances = Buckets(*shape, both_ways=not config.causal) if config.buckets else None
        self.mask = CAUSAL if config.causal else None
        self.residual_scores = config.residual_scores

    def forward(
        self,
        x: Tensor,  # (N, W)
        rows: Rows,
        source: tuple[Tensor, Rows] | None = None,
        was: list[Trace] | None = None,
        start: Tensor | int = 0,
    ) -> tuple[Tensor, list[Trace]]:
        """What the layers make of x, and the traces with which to go on after it."""
        traces = []
        for state, trace in self.each(x, Context(rows, self.mask, source, start), was):
            x = state
            traces.append(trace)
        return self.norm(x), traces

    def read(self, x: Tensor, rows: Rows, source: tuple[Tensor, Rows] | None = None) -> Tensor:  # (N, W) -> (N, W)
        """What the layers make of whole rows.  Training may put something faster in its place (training/graphs.py)."""
        for state, _ in self.each(x, Context(rows, self.mask, source, forgets=True)):
            x = state
        return self.norm(x)

    def each(self, x: Tensor, see: Context, was: list[Trace] | None = None) -> Iterator[tuple[Tensor, Trace]]:
        """What each layer makes of x, and its trace."""
        if was and was[0].own:
            see = replace(see, whole=was[0].own.rows.grown(see.rows))
        if self.distances is not None:
            see = replace(see, bias=self.distances(see.rows, see.whole or see.rows))
        if self.residual_scores:
            see = replace(see, scored=True)
        for layer, number in enumerate(self.order):
            x, trace = self.blocks[number](x, see, was[layer] if was else Trace())
            if self.residual_scores:
                see, trace = replace(see, bias=trace.scores), replace(trace, scores=None)
            yield x, trace

    def begin(self, source: Tensor, rows: Rows) -> list[Trace]:
        """Traces before the first token: the source, remembered once for each layer."""
        memories = [cast(Block, self.blocks[number]).remember_source(source, rows) for number in self.order]
        if torch.is_grad_enabled():
            return [Trace(source=memory) for memory in memories]
        return [Trace(source=memory and Room.of(memory)) for memory in memories]
