"""Word vectors in an encoder's place: a vector for each word, the same wherever the word stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.words import Cut
from regard.errors import UsageProblem
from regard.text.vectors import Vectors

CUT = Cut(lowercase=False)


class StaticReader:
    """Embeds as a Reader does.  With a `window` the vectors of so many words on either side stand beside a word's own,
    and zeros beyond the ends of a sentence.  A word is looked for as it is written and in other cases; one that is
    not found has zeros."""

    def __init__(self, vectors: Vectors, window: int = 0):
        if window < 0:
            raise UsageProblem(f"window={window}: give words on either side, or 0 for none")
        self.vectors, self.window = vectors, window
        self.width = (2 * window + 1) * vectors.width
        self._table = np.concatenate([vectors.matrix, np.zeros((1, vectors.width), np.float32)])  # the unknown is last

    def embed(self, texts: Sequence[str], *, layers: object = "last") -> np.ndarray:  # (texts, W)
        """The mean of a text's words.  There is but one layer."""
        found = self.embed_words([CUT.words(text) for text in texts])
        means = [words.mean(0) if len(words) else np.zeros(self.width) for words in found]
        return np.array(means).reshape(-1, self.width)

    def embed_words(self, sentences: Sequence[Sequence[str]], *, layers: object = "last") -> list[np.ndarray]:
        """Of sentences cut into words, a vector for each word."""
        return [self._around(self._table[[self._row(word) for word in words]]) for words in sentences]

    def _row(self, word: str) -> int:
        place = self.vectors.spelt(word)
        return len(self.vectors) if place is None else place

    def _around(self, vectors: np.ndarray) -> np.ndarray:  # (words, W) -> (words, (2 window + 1) W)
        nothing = np.zeros((self.window, self.vectors.width), vectors.dtype)
        padded = np.concatenate([nothing, vectors, nothing])
        return np.concatenate([padded[at : at + len(vectors)] for at in range(2 * self.window + 1)], 1)
