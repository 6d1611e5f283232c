"""The encoder that BERT and its relatives share, and the heads their files carry."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from regard.layers.block import Context
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.stack import Stack, StackConfig
from regard.rows import Rows, Tokens

Role = Literal["pool", "masked", "next", "replaced", "classify", "choose", "tag", "answer"]  # what a head is for


@dataclass(frozen=True)
class EncoderConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    stack: StackConfig = field(default_factory=StackConfig)


class Encoder(nn.Module):
    """A state for each token, from both sides of it."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config = config
        narrow, width = config.embedding.width, config.stack.block.width
        self.embed = Embedding(config.embedding)
        self.widen = nn.Linear(narrow, width) if narrow != width else None  # ALBERT, small ELECTRA
        self.stack = Stack(config.stack)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        return deque(self.layers(tokens, types), maxlen=1).pop()  # those below are not kept

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        """The states of every layer, (N, W), what was embedded first; types are (N,), by default all the first."""
        x = self.embed.read(tokens, types)
        x = x if self.widen is None else self.widen(x)
        yield x
        for state, _ in self.stack.each(x, Context(tokens.rows)):
            yield state


class Head(nn.Module):
    """From states to scores: a hidden layer where the paper has one, then as many outputs as there are answers."""

    def __init__(
        self,
        width: int,
        activation: str | None = None,
        outputs: int | None = None,
        *,
        first: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.first = first  # of a row's first token alone
        self.dense = nn.Linear(width, width) if activation else None
        self.activation = ACTIVATIONS[activation] if activation else None
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, outputs) if outputs else None

    def forward(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (N or B, outputs)
        x = states[rows.first] if self.first else states
        if self.dense is not None and self.activation is not None:
            x = self.activation(self.dense(x))
        return x if self.out is None else self.out(self.dropout(x))


class WordHead(nn.Module):
    """Masked language modelling: a layer, its norm, and a comparison with every word of the embedding's table."""

    def __init__(self, config: EncoderConfig, activation: str | None = None):
        super().__init__()
        embedding, block = config.embedding, config.stack.block
        self.dense = nn.Linear(block.width, embedding.width)
        self.activation = ACTIVATIONS[activation or block.activation]
        self.norm = nn.LayerNorm(embedding.width, block.epsilon)
        self.bias = nn.Parameter(torch.zeros(embedding.vocab))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:  # (N, W), (V, narrow) -> (N, V)
        return self.norm(self.activation(self.dense(states))) @ table.T + self.bias


def begin(module: nn.Module) -> None:
    """Numbers to begin pretraining with: BERT's."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=0.02, a=-0.04, b=0.04)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


class HeadedEncoder(nn.Module):
    """An encoder with the heads its folder carries, by what they are for."""

    def __init__(self, encoder: Encoder, heads: Mapping[Role, nn.Module]):
        super().__init__()
        self.encoder, self.heads = encoder, nn.ModuleDict({str(role): head for role, head in heads.items()})

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:
        return self.encoder(tokens, types)

    def scores(self, role: Role, states: Tensor, rows: Rows) -> Tensor:
        """What a head makes of states: a row of scores for each of them, or for each text."""
        head = self.heads[role]
        return head(states, self.encoder.embed.tokens.weight) if isinstance(head, WordHead) else head(states, rows)
