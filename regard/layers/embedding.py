"""Tokens as vectors, with their positions added: learned, or sinusoids in either order; and their types, normed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.position import sinusoids
from regard.errors import Problem
from regard.layers.sizes import check_shares, check_sizes
from regard.rows import Tokens


@dataclass(frozen=True)
class EmbeddingConfig:
    vocab: int = 8000
    width: int = 512
    positions: Literal["none", "sinusoidal", "sinusoidal-halves", "learned"] = "sinusoidal"
    longest: int = 1024  # rows of a table: learned ones, and Marian's halves; the paper's sinusoids have no end
    scaled: bool = True  # times sqrt(width): the paper's, for tables that are also the output's weights
    dropout: float = 0.1
    first: int = 0  # the place of a row's first token: RoBERTa counts from 2
    types: int = 0  # kinds of tokens, such as BERT's two segments
    epsilon: float | None = None  # of a norm over the sum; None: there is none

    def __post_init__(self) -> None:
        check_sizes(self, "vocab", "width", "longest")
        check_sizes(self, *(name for name in ("first", "types") if getattr(self, name)))  # these may be 0
        check_shares(self, "dropout")


class Embedding(nn.Module):
    def __init__(self, config: EmbeddingConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.longest, config.width) if config.positions == "learned" else None
        self.types = nn.Embedding(config.types, config.width) if config.types else None
        self.norm = nn.LayerNorm(config.width, config.epsilon) if config.epsilon is not None else None
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5 if config.scaled else 0.02)
        for table in (self.positions, self.types):
            if table is not None:
                nn.init.normal_(table.weight, std=0.02)

    @property
    def places(self) -> int:
        """How many tokens a row may have."""
        endless = self.config.positions in ("none", "sinusoidal")
        return sys.maxsize if endless else self.config.longest - self.config.first

    def read(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N, W)
        """Whole rows, from their first place."""
        if tokens.rows.longest > self.places:
            raise Problem(
                f"a row of {tokens.rows.longest} tokens is longer than the table of positions, which has "
                f"{self.places}; shorten the text, or train with a larger embedding.longest"
            )
        return self(tokens.ids, tokens.rows.at, types)

    def forward(self, ids: Tensor, at: Tensor, types: Tensor | None = None) -> Tensor:  # (N,) each -> (N, W)
        x = self.tokens(ids)
        if self.config.scaled:
            x = x * self.config.width**0.5
        if self.types is not None:
            only = types is None or self.types.num_embeddings == 1  # RoBERTa's, which tells no segments apart
            x = x + (self.types.weight[0] if only else self.types(types))
        if self.positions is not None:
            x = x + self.positions(at + self.config.first)
        elif self.config.positions != "none":
            x = x + WAVES[self.config.positions](at, self.config.width).to(x.dtype)
        return self.dropout(x if self.norm is None else self.norm(x))


def halves(at: Tensor, width: int) -> Tensor:  # (N,) -> (N, W)
    """Marian's order of the same numbers: all sines, then all cosines."""
    waves = sinusoids(at, width)
    return torch.cat([waves[:, 0::2], waves[:, 1::2]], 1)


WAVES = {"sinusoidal": sinusoids, "sinusoidal-halves": halves}
