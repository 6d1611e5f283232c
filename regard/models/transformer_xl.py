"""Transformer-XL (Dai et al., 2019): a text is read in segments, and each layer remembers what it read in those before.

The full softmax stands where the paper has an adaptive one for large vocabularies.
Letters: B rows, N tokens, M remembered places of all rows together, W width.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention.attention import AttentionConfig
from regard.attention.mask import CAUSAL, band
from regard.attention.position import Distance
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import OwnSettings
from regard.errors import UsageProblem
from regard.layers.block import Block, BlockConfig, Context, Trace
from regard.layers.embedding import EmbeddingConfig
from regard.layers.sizes import check_sizes
from regard.layers.stack import StackConfig
from regard.models.encoder import Encoder, EncoderConfig, NextHead, Role
from regard.models.published import EncoderFamily, HeadNames
from regard.rows import Rows, Tokens


@dataclass(frozen=True)
class SegmentConfig(EncoderConfig):
    memory: int = 512  # places of each row that are remembered; 0: none
    window: bool = False  # a place sees the `memory` places before it and no more, wherever in a segment it stands
    furthest: int | None = None  # the distance from which on distances are alike; None: none are

    def __post_init__(self) -> None:
        check_sizes(self, *["memory"] * bool(self.memory), "furthest")
        own, embedded = self.stack.block.attention.positions, self.embedding.positions
        if own != "distance" or embedded != "none":
            raise UsageProblem(
                f"stack.block.attention.positions={own}, embedding.positions={embedded}: what is remembered has left "
                "its place, and is found by distance alone; give distance and none"
            )


@dataclass(frozen=True, eq=False)
class Remembered:
    """What every layer read at the last places of each row, without how it came there: no gradient goes back."""

    states: Tensor  # (M, layers, W)
    rows: Rows

    def select(self, chosen: Tensor) -> Remembered:
        places, rows = self.rows.tokens_of(chosen)
        return Remembered(self.states[places], rows)

    def detached(self) -> Remembered:
        return self

    def tensors(self) -> list[Tensor]:
        return [self.states, self.rows.offsets]

    def grown(self, states: Tensor, rows: Rows, most: int) -> Remembered:
        """With more at the end of each row, of which the last places are kept."""
        whole = self.rows.grown(rows)
        if self.rows.is_even and rows.is_even:
            kept = Rows.even(len(rows), min(whole.longest, most), states.device)
            joined = torch.cat([self.rows.pad(self.states), rows.pad(states)], 1)  # (B, T, layers, W)
            return Remembered(joined[:, whole.longest - kept.longest :].flatten(0, 1), kept)
        kept = Rows.of(whole.lengths.clamp(max=most), states.device)
        at, before = kept.at + (whole.lengths - kept.lengths)[kept.row], self.rows.lengths[kept.row]
        new = self.rows.total + rows.first[kept.row] + at - before
        places = torch.where(at < before, self.rows.first[kept.row] + at, new)
        return Remembered(torch.cat([self.states, states])[places], kept)


class SegmentEncoder(Encoder):
    """A causal encoder that knows distances alone, so that what it remembers need not know its old place."""

    def __init__(self, config: SegmentConfig):
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.remember(config.memory, config.furthest)
        begin(self)

    def remember(self, memory: int, furthest: int | None = None) -> None:
        """Remember so many places from now on: when reading, more may help than were there in training.  The paper
        then takes distances that training never met for the furthest that it did."""
        if memory < 0:
            raise UsageProblem(f"a memory of {memory} places; give 0 or more")
        config = cast(SegmentConfig, self.config)
        self.memory = memory
        self.stack.mask = band(memory, 0) if config.window else CAUSAL
        for part in self.modules():
            if isinstance(part, Distance):
                part.furthest = furthest or config.furthest or sys.maxsize

    def read(self, tokens: Tokens, was: Any = None) -> tuple[Tensor, Any]:  # (N, W)
        """Read on from what is remembered, of which keys and values are made anew; what is remembered now."""
        rows = tokens.rows
        x = self.embed.read(tokens)
        x = x if self.widen is None else self.widen(x)
        was = was or self.nothing(rows, x)
        traces = [self.trace(*layer, was.rows) for layer in zip(self.stack.order, was.states.unbind(1), strict=True)]
        states = [x, *(state for state, _ in self.stack.each(x, Context(rows, self.stack.mask), traces))]
        now = was.grown(torch.stack(states[:-1], 1).detach(), rows, self.memory)
        return self.dropout(self.stack.norm(states[-1])), now

    def trace(self, number: int, past: Tensor, rows: Rows) -> Trace:  # (M, W)
        """The keys and values of what a layer read."""
        block = cast(Block, self.stack.blocks[number])
        return Trace(block.attention.remember(block.attention_residual.before(past), rows) if rows.total else None)

    def nothing(self, rows: Rows, x: Tensor) -> Remembered:
        return Remembered(x.new_zeros(0, self.config.layers, x.shape[1]), Rows.even(len(rows), 0, x.device))

    def state_of(self, tensors: Sequence[Tensor]) -> Remembered:
        states, offsets = tensors
        return Remembered(states, Rows.of(offsets.diff(), offsets.device))


def begin(module: nn.Module) -> None:
    """Numbers to begin with: those of the paper's code."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.LayerNorm):
            nn.init.normal_(part.weight, 1.0, 0.02)
        if isinstance(part, Distance):
            nn.init.normal_(part.u, std=0.02)
            nn.init.normal_(part.v, std=0.02)


def transformer_xl(
    layers=12, width=512, heads=8, inner=2048, *, vocab=256, memory=512, dropout=0.1, norm_first=False
) -> SegmentConfig:
    attention = AttentionConfig(heads=heads, bias=False, positions="distance")
    block = BlockConfig(
        width, inner, "relu", dropout=dropout, inner_dropout=dropout, norm_first=norm_first, attention=attention
    )
    embedding = EmbeddingConfig(vocab, width, "none", dropout=dropout)
    return SegmentConfig(embedding, StackConfig(layers, causal=True, final_norm=norm_first, block=block), memory)


PRESETS = {
    "transformer-xl-small": transformer_xl(6, 384, 6, 1536, memory=256),
    "transformer-xl-enwik8": transformer_xl(),  # the paper's 41 M for characters
    "transformer-xl-wt103-base": transformer_xl(16, 410, 10, 2100, vocab=267_735, memory=150),
}


@dataclass(frozen=True)
class WriteNames:
    """The head of the language model: the embedding's weights, or its own where those are narrower, and a bias."""

    role: Role = "write"
    out = None
    rules = Rules((("heads.write.{rest}", "heads.write.{rest}"),))

    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> NextHead:
        tied = config.embedding.width == config.width
        return NextHead(config.width, config.embedding.vocab, tied=tied, bias=True)


FAMILY = EncoderFamily(
    transformer_xl(),
    OwnSettings(),
    Rules((("encoder.{rest}", "encoder.{rest}"),)),
    "",
    {
        "TransformerXL": (),
        "TransformerXLForNextWord": (WriteNames(),),
        "TransformerXLForSequenceClassification": (HeadNames("classify", "heads.classify.out", pool="last"),),
        "TransformerXLForTokenClassification": (HeadNames("tag", "heads.tag.out"),),
    },
    kind=SegmentEncoder,
)
