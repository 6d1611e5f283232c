"""Words by their characters (Kim et al., 2016; ELMo, Peters et al. 2018): convolutions of several widths, the largest
of each, highways, and a projection.  Characters are the bytes of UTF-8, so that any word can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import Problem, UsageProblem
from regard.layers.sizes import check_shares, check_sizes
from regard.rows import Tokens

BEGIN, END, NOTHING = 256, 257, 258  # behind the bytes: where a word begins, where it ends, and what is behind it
SPECIAL, SPECIALS = 259, 5  # special tokens are one character each
CODES = SPECIAL + SPECIALS
LONGEST = 1000  # a table has as many for every word


@dataclass(frozen=True)
class CharactersConfig:
    vocab: int = 50_000  # words that can be told; any can be read
    width: int = 512  # of a word
    size: int = 16  # of a character
    filters: tuple[int, ...] = (32, 32, 64, 128, 256, 512, 1024)  # over 1 character, over 2, ...
    longest: int = 50  # characters of a word, its begin and end counted
    highways: int = 2
    activation: Literal["relu", "tanh"] = "relu"  # behind the filters
    dropout: float = 0.1

    types = 0  # there are no kinds of tokens

    def __post_init__(self) -> None:
        check_sizes(self, "vocab", "width", "size")
        check_sizes(self, "longest", largest=LONGEST)
        check_shares(self, "dropout")
        if self.longest < 3:
            raise UsageProblem(f"longest={self.longest}: give 3 or more, for a word has a begin and an end")
        if not self.filters or min(self.filters) < 1 or len(self.filters) > self.longest:
            raise UsageProblem(f"filters={self.filters}: give some, none wider than a word's {self.longest} characters")
        if not 0 <= self.highways <= 100:
            raise UsageProblem(f"highways={self.highways}: give 0 to 100")


class Spellings(Protocol):
    """What spells the words that ids stand for: those of a vocabulary, and whatever was met in text."""

    def table(self) -> np.ndarray:  # (words, longest) int16
        ...


def spelled_words(words: Sequence[str], longest: int) -> np.ndarray:  # (words, longest) int16
    """The characters of words; what is too long loses its end."""
    parts = [word.encode("utf-8", "replace")[: longest - 2] for word in words]
    lengths = np.array([len(part) for part in parts], np.int64)
    row = np.repeat(np.arange(len(parts)), lengths)
    at = np.arange(len(row)) - np.repeat(lengths.cumsum() - lengths, lengths)
    codes = np.full((len(parts), longest), NOTHING, np.int16)
    codes[:, 0] = BEGIN
    codes[row, at + 1] = np.frombuffer(b"".join(parts), np.uint8)
    codes[np.arange(len(parts)), lengths + 1] = END
    return codes


def special_spelling(number: int, longest: int) -> list[int]:
    """A special token is none of the words that text can spell.  The last of many share a character."""
    codes = [BEGIN, SPECIAL + min(number, SPECIALS - 1), END]
    return codes + [NOTHING] * (longest - len(codes))


class Highway(nn.Module):
    """Srivastava et al. 2015: g * relu(W x + b) + (1 - g) * x, where g = sigmoid(U x + c)."""

    def __init__(self, width: int):
        super().__init__()
        self.change, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, W)
        return x.lerp(self.change(x).relu(), self.gate(x).sigmoid())


class Characters(nn.Module):
    def __init__(self, config: CharactersConfig):
        super().__init__()
        self.config, total = config, sum(config.filters)
        self.tokens = nn.Embedding(CODES, config.size)
        widths = enumerate(config.filters, 1)
        self.filters = nn.ModuleList(nn.Conv1d(config.size, count, width) for width, count in widths)
        self.highways = nn.ModuleList(Highway(total) for _ in range(config.highways))
        self.project = nn.Linear(total, config.width)
        self.begin()
        self._spellings: Spellings | None = None
        self._table = torch.empty(0, config.longest, dtype=torch.int16)

    @torch.no_grad()
    def begin(self) -> None:
        """Numbers to begin with, as the authors' code has them.  At first a highway lets most of a word pass."""
        nn.init.uniform_(self.tokens.weight, -1.0, 1.0)
        for part in self.modules():
            if isinstance(part, nn.Conv1d):
                nn.init.uniform_(part.weight, -0.05, 0.05)
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=part.in_features**-0.5)
            if isinstance(part, nn.Conv1d | nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
        highways: list[Any] = list(self.highways)
        for highway in highways:
            nn.init.constant_(highway.gate.bias, -2.0)

    def spell(self, spellings: Spellings) -> None:
        """Learn how words are spelled: no number of the model, but known by its vocabulary."""
        self._spellings, self._table = spellings, self._table[:0]

    def read(self, tokens: Tokens) -> Tensor:  # (N, W)
        """Each word is read once, however often it stands there."""
        ids, which = tokens.ids.unique(return_inverse=True)
        return self(self.spelled(ids))[which]

    def spelled(self, ids: Tensor) -> Tensor:  # (N,) -> (N, longest)
        if self._spellings is None:
            raise Problem("how words are spelled is not known: read by a Reader, which has the vocabulary")
        known = self._spellings.table()
        if len(known) != len(self._table) or self._table.device != ids.device:  # words were met since
            self._table = torch.from_numpy(known).to(ids.device)
        return self._table[ids].long()

    def forward(self, codes: Tensor) -> Tensor:  # (N, longest) -> (N, W)
        x = self.tokens(codes).transpose(1, 2)  # (N, size, longest)
        x = torch.cat([part(x).amax(-1) for part in self.filters], -1)
        x = x.tanh() if self.config.activation == "tanh" else x.relu()  # the largest stays the largest
        for highway in self.highways:
            x = highway(x)
        return self.project(x)
