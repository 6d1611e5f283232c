"""Tokens as vectors, with their positions added: learned, or the Transformer's sinusoids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import Problem
from regard.layers.sizes import check_shares, check_sizes
from regard.rows import Tokens


@dataclass(frozen=True)
class EmbeddingConfig:
    vocab: int = 8000
    width: int = 512
    positions: Literal["none", "sinusoidal", "learned"] = "sinusoidal"
    longest: int = 1024  # rows a learned table has; sinusoids have no end
    scaled: bool = True  # times sqrt(width): the paper's, for tables that are also the output's weights
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_sizes(self, "vocab", "width", "longest")
        check_shares(self, "dropout")


class Embedding(nn.Module):
    def __init__(self, config: EmbeddingConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.longest, config.width) if config.positions == "learned" else None
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.tokens.weight, std=config.width**-0.5 if config.scaled else 0.02)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=0.02)

    def read(self, tokens: Tokens) -> Tensor:  # (N, W)
        """Whole rows, from their first place."""
        if self.positions is not None and tokens.rows.longest > self.config.longest:
            raise Problem(
                f"a row of {tokens.rows.longest} tokens is longer than the table of positions, which has "
                f"{self.config.longest}; shorten the text, or train with a larger embedding.longest"
            )
        return self(tokens.ids, tokens.rows.at)

    def forward(self, ids: Tensor, at: Tensor) -> Tensor:  # (N,), (N,) -> (N, W)
        x = self.tokens(ids)
        if self.config.scaled:
            x = x * self.config.width**0.5
        if self.positions is not None:
            x = x + self.positions(at)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(at, self.config.width).to(x.dtype)
        return self.dropout(x)


def sinusoids(at: Tensor, width: int) -> Tensor:  # (N,) -> (N, W)
    """Vaswani 2017: PE(p, 2i) = sin(p / 10000^(2i / W)), PE(p, 2i + 1) = cos of the same."""
    rate = 10000.0 ** (-torch.arange(0, width, 2, device=at.device) / width)
    angle = at[:, None] * rate  # (N, W / 2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]
