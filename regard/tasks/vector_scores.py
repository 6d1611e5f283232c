"""How good word vectors are: by pairs of words that people have compared, and by analogies (Mikolov et al. 2013).
Case is not regarded: a word is the most frequent of its spellings.  As is usual, only frequent words take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from regard.data.word_questions import Analogy, Pair
from regard.errors import Problem
from regard.tasks.label_metrics import spearman
from regard.tasks.metrics import Score
from regard.text.vectors import Vectors

MOST = 300_000  # words that take part
ROOM = 2**26  # similarities computed at once


class VectorScores:
    def __init__(self, vectors: Vectors, most: int = MOST):
        self.directions = vectors.directions[:most]
        self.words = [word.lower() for word in vectors.words[:most]]
        self.signature = f"case:ignored|words:{len(self.words)}"

    @cached_property
    def spellings(self) -> dict[str, list[int]]:
        """Where a word stands in all its spellings, the most frequent first."""
        found: dict[str, list[int]] = {}
        for place, word in enumerate(self.words):
            found.setdefault(word, []).append(place)
        return found

    def similarity(self, pairs: Sequence[Pair]) -> Score:
        """Spearman's correlation of cosines with what people said, over the pairs whose words are both known."""
        known = [pair for pair in pairs if self.knows((pair.one, pair.other))]
        covered = f"{len(known):,} of {len(pairs):,} pairs"
        if not known:
            raise Problem(f"{covered} have vectors for both words: there is nothing to score. Give other vectors.")
        one = self.directions[self.places([pair.one for pair in known])]
        other = self.directions[self.places([pair.other for pair in known])]
        found = spearman((one * other).sum(1).tolist(), [pair.similarity for pair in known])
        return Score(found.metric, found.value, self.signature, covered)

    def analogies(self, sections: Mapping[str, Sequence[Analogy]]) -> dict[str, Score]:
        """The share of analogies whose fourth word is nearest to second - first + third, of those whose four words are
        known: of each section, and of all together."""
        right = {name: self.right(asked) for name, asked in sections.items()}
        right["all"] = np.concatenate(list(right.values()))
        total = {name: len(asked) for name, asked in sections.items()}
        total["all"] = sum(total.values())
        return {name: self.accuracy(found, total[name]) for name, found in right.items()}

    def accuracy(self, right: np.ndarray, asked: int) -> Score:
        value = 100 * float(right.mean()) if len(right) else 0.0
        return Score("accuracy", value, self.signature, f"{len(right):,} of {asked:,} analogies")

    def right(self, asked: Sequence[Analogy]) -> np.ndarray:  # a truth for each analogy whose words are known
        known = [tuple(word.lower() for word in analogy) for analogy in asked if self.knows(analogy)]
        together = max(ROOM // len(self.words), 1)
        parts = [self.some_right(known[start : start + together]) for start in range(0, len(known), together)]
        return np.concatenate([np.zeros(0, bool), *parts])

    def some_right(self, asked: Sequence[Sequence[str]]) -> np.ndarray:  # n analogies -> (n,)
        one, other, third = (self.directions[self.places(words)] for words in list(zip(*asked, strict=True))[:3])
        similarity = (other - one + third) @ self.directions.T  # (n, W) @ (W, V)
        for row, words in zip(similarity, asked, strict=True):
            row[[place for word in words[:3] for place in self.spellings[word]]] = -np.inf
        return np.array([self.words[best] == words[3] for best, words in zip(similarity.argmax(1), asked, strict=True)])

    def knows(self, words: Sequence[str]) -> bool:
        return all(word.lower() in self.spellings for word in words)

    def places(self, words: Sequence[str]) -> list[int]:
        return [self.spellings[word.lower()][0] for word in words]
