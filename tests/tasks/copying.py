"""A language model that has learned nothing but to copy: what followed a word before will follow it again.  It is what
in-context learning needs, and can be told in a few lines (the induction heads of Olsson et al., 2022, do it)."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.models.encoder import HeadedEncoder, NextHead
from regard.rows import Tokens
from regard.tasks.writer import Writer
from regard.text.tokenizer import Tokenizer

DOUBT = 0.01  # that anything else follows


@dataclass(frozen=True)
class Remembered:
    rows: list[list[int]]

    def select(self, chosen: Tensor) -> Remembered:
        return Remembered([self.rows[number] for number in chosen.tolist()])


class Copies(nn.Module):
    """A state is how often each word followed the last one before."""

    def __init__(self, vocab: int):
        super().__init__()
        self.vocab = vocab
        self.embed = Embedding(EmbeddingConfig(vocab, 1, "none"))

    def read(self, tokens: Tokens, was: Remembered | None = None) -> tuple[Tensor, Remembered]:  # (N, V)
        before = was.rows if was else [[] for _ in range(len(tokens))]
        now = [old + new for old, new in zip(before, tokens.tolist(), strict=True)]
        states = [
            self.followed(row[: at + 1])
            for old, row in zip(before, now, strict=True)
            for at in range(len(old), len(row))
        ]
        return torch.stack(states), Remembered(now)

    def followed(self, ids: list[int]) -> Tensor:  # (V,)
        after = [ids[at + 1] for at, id in enumerate(ids[:-1]) if id == ids[-1]]
        return torch.bincount(torch.tensor(after, dtype=torch.long), minlength=self.vocab).float()


class CopyHead(NextHead):
    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        return (states + DOUBT).log()


def copying(texts: list[str]) -> Writer:
    """The model with a vocabulary of the words of some texts."""
    tokenizer = Tokenizer.train("words", texts, 1000)
    model = HeadedEncoder(Copies(tokenizer.size), {"write": CopyHead(1, tokenizer.size)})
    return Writer(SimpleNamespace(model=model), tokenizer)
