"""Batches for language models, from text that was encoded whole: rows of equally many tokens, each with the one that
follows it.  Cut anywhere and shuffled; or as parallel streams, where each row goes on where it stopped last time."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.data.batches import rows_of, tensor_of
from regard.data.corpus import Corpus
from regard.errors import Problem, UsageProblem
from regard.rows import Tokens


class Shuffled:
    """Rows from another place in every epoch, in another order."""

    def __init__(self, corpus: Corpus, longest: int, budget: int, seed: int):
        self.corpus, self.longest, self.seed = corpus, longest, seed
        self.rows = rows_in(budget, longest)
        self.count = (corpus.facts.tokens - 1) // longest  # rows of the text, from its first token
        if self.count < 2:
            raise too_short(corpus, 2 * longest)
        self.per_epoch = max((self.count - 1) // self.rows, 1)
        self._starts: dict[int, np.ndarray] = {}

    def lines(self) -> list[str]:
        return [f"{self.per_epoch:,} batches an epoch, of {self.rows} rows of {self.longest} tokens"]

    def epoch_of(self, position: int) -> tuple[int, int]:
        return divmod(position, self.per_epoch)

    def at(self, position: int) -> dict[str, Any]:
        epoch, index = self.epoch_of(position)
        chosen = self.starts(epoch)[index * self.rows : (index + 1) * self.rows]
        return followed([self.corpus.ids(at, at + self.longest + 1) for at in chosen.tolist()])

    def starts(self, epoch: int) -> np.ndarray:
        """Where the rows of an epoch begin."""
        if epoch not in self._starts:
            draw = np.random.default_rng([self.seed, epoch])
            shift = draw.integers(self.longest)
            self._starts = {epoch: shift + self.longest * draw.permutation(self.count - 1)}
        return self._starts[epoch]


class Streams:
    """The text as many texts side by side, read on and on.  A step has `turns` micro-batches, over all ranks; each turn
    has streams of its own, so that whoever takes it can carry on from its last step."""

    def __init__(self, corpus: Corpus, longest: int, budget: int, turns: int = 1):
        self.corpus, self.longest, self.turns = corpus, longest, turns
        self.rows = rows_in(budget, longest)
        self.length = (corpus.facts.tokens - 1) // (self.rows * turns)  # of a stream
        if self.length < 1:
            raise too_short(corpus, self.rows * turns)
        self.segments = -(-self.length // longest)
        self.per_epoch = self.segments * turns

    def lines(self) -> list[str]:
        count = self.rows * self.turns
        return [f"{self.segments:,} steps an epoch, of {count} streams that are read {self.longest} tokens at a time"]

    def epoch_of(self, position: int) -> tuple[int, int]:
        return divmod(position, self.per_epoch)

    def at(self, position: int) -> dict[str, Any]:
        step, turn = divmod(position, self.turns)
        begin = step % self.segments * self.longest
        end = min(begin + self.longest, self.length)
        first = [(turn * self.rows + row) * self.length for row in range(self.rows)]
        return followed([self.corpus.ids(at + begin, at + end + 1) for at in first]) | {
            "turn": turn,
            "goes_on": begin > 0,
        }


def rows_in(budget: int, longest: int) -> int:
    if longest < 1 or budget < longest:
        raise UsageProblem(f"a micro-batch of {budget} tokens has no room for a row of {longest}")
    return budget // longest


def followed(rows: list[np.ndarray]) -> dict[str, Any]:
    """Rows, and for each of their tokens the one that follows."""
    ids = np.stack(rows)
    lengths = np.full(len(ids), ids.shape[1] - 1)
    return {"tokens": Tokens(tensor_of(ids[:, :-1].ravel()), rows_of(lengths)), "wanted": tensor_of(ids[:, 1:].ravel())}


def too_short(corpus: Corpus, least: int) -> Problem:
    return Problem(
        f"the text has {corpus.facts.tokens:,} tokens, and {least + 1:,} are needed; give more, or ask for less"
    )
