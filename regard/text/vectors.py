"""Word vectors: what is near a word, what a word is to another, and a start for the embedding of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.config import did_you_mean
from regard.errors import Problem, UsageProblem
from regard.text.vector_files import Form, read_vectors, write_vectors
from regard.text.vocabulary import SPACE

if TYPE_CHECKING:
    from torch import Tensor

SUGGESTED = 20_000  # of the most frequent words, from which a misspelt one is mended
SPELLINGS = (str, str.lower, str.capitalize, str.upper)  # in which a word is looked for, in this order


class Near(NamedTuple):
    word: str
    similarity: float  # the cosine


@dataclass(frozen=True, eq=False)
class Vectors:
    """Words, the most frequent first as files have them, and a vector for each."""

    words: list[str]
    matrix: np.ndarray  # (V, W) float32

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            shape = " x ".join(map(str, self.matrix.shape))
            raise UsageProblem(f"{len(self.words)} words need a vector each, and the matrix is {shape}")
        if len(self.places) != len(self.words):
            again = next(word for place, word in enumerate(self.words) if self.places[word] != place)
            raise UsageProblem(f"the word {again!r} is given twice; give each word once")

    @classmethod
    def read(cls, path: str | Path, skip_bad: int = 0) -> Vectors:
        """word2vec's text or binary form or GloVe's, packed or not, whatever the file is called.  A vector that is
        faulty is told with its place, unless so many may be left out."""
        return cls(*read_vectors(path, skip_bad))

    def write(self, path: str | Path, form: Form = "text") -> None:
        write_vectors(path, self.words, self.matrix, form)

    @cached_property
    def places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def directions(self) -> np.ndarray:  # (V, W)
        """The vectors at length one, and zeros as they are."""
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        return self.matrix / np.where(lengths > 0, lengths, 1)

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.places

    def __getitem__(self, word: str) -> np.ndarray:  # (W,)
        return self.matrix[self.place(word)]

    def place(self, word: str) -> int:
        if word not in self.places:
            raise Problem(f"{word!r} is not among the {len(self):,} words; {self._suggestion(word)}")
        return self.places[word]

    def similarity(self, one: str, other: str) -> float:
        return float(self.directions[self.place(one)] @ self.directions[self.place(other)])

    def near(self, word: str, best: int = 10) -> list[Near]:
        """The words whose vectors point most nearly the same way."""
        return self.nearest([word], best=best)

    def analogy(self, one: str, other: str, third: str, best: int = 10) -> list[Near]:
        """What is to the third word as the other is to the one: by 3CosAdd, other - one + third, all at length one
        (Mikolov et al. 2013)."""
        return self.nearest([other, third], [one], best)

    def nearest(self, plus: Sequence[str], minus: Sequence[str] = (), best: int = 10) -> list[Near]:
        """The words nearest to a sum of words, less others; none of those words themselves."""
        if best < 1:
            raise UsageProblem(f"best={best}: give 1 or more")
        asked = [self.place(word) for word in (*plus, *minus)]
        wanted = self.directions[asked[: len(plus)]].sum(0) - self.directions[asked[len(plus) :]].sum(0)  # (W,)
        similarity = self.directions @ (wanted / max(float(np.linalg.norm(wanted)), 1e-12))  # (V,)
        similarity[asked] = -np.inf
        most = min(best, len(self) - len(set(asked)))
        found = np.argpartition(-similarity, range(most))[:most].tolist() if most else []
        return [Near(self.words[place], float(similarity[place])) for place in found]

    def matrix_for(self, tokens: Sequence[str], start: Tensor) -> tuple[Tensor, int]:  # V tokens, (V, W) -> (V, W)
        """An embedding for a vocabulary, and how many of its tokens were found here: those have their vectors, the
        others keep their rows of `start`.  A token is looked for as it is written, then in lower case, capitalised, and
        in capitals; the ▁ that stands for a space before it is no part of it."""
        import torch

        if start.shape != (len(tokens), self.width):
            table = " x ".join(map(str, start.shape))
            raise Problem(f"{len(tokens)} tokens with vectors of width {self.width} do not fit a table of {table}")
        places = [self.spelt(token.removeprefix(SPACE)) for token in tokens]
        known = torch.tensor([token for token, place in enumerate(places) if place is not None], dtype=torch.long)
        theirs = torch.from_numpy(self.matrix[[place for place in places if place is not None]]).to(start)
        return start.detach().clone().index_copy_(0, known.to(start.device), theirs), len(known)

    def spelt(self, word: str) -> int | None:
        """The place of a word as it is written, or else in lower case, capitalised, or in capitals."""
        spellings = (self.places.get(spell(word)) for spell in SPELLINGS)
        return next((place for place in spellings if place is not None), None)

    def _suggestion(self, word: str) -> str:
        place = self.spelt(word)
        if place is not None:
            return f"did you mean {self.words[place]!r}?"
        told = did_you_mean(word, self.words[:SUGGESTED])
        return told if told.startswith("did you mean") else "try a more frequent one"
