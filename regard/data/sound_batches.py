"""Batches of waves: crops of recordings to pretrain on, and recordings with the letters that are spoken in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.batches import Order
from regard.data.ears import Ears
from regard.data.framed import ExampleBatches
from regard.data.recordings import SoundCorpus
from regard.data.varied import varied
from regard.errors import Problem
from regard.rows import Tokens


class Crops(Order):
    """Batches of crops: a recording longer than `longest` samples is cut into parts of that length, and where the cuts
    lie is drawn anew for every position.  Those shorter than `shortest` are left out.  A batch costs its samples.
    `much` is how much each is varied."""

    def __init__(
        self, corpus: SoundCorpus, ears: Ears, shortest: int, longest: int, budget: int, seed: int, much: float = 0.0
    ):
        lengths = corpus.lengths
        parts = np.where(lengths < shortest, 0, np.maximum(lengths // longest, 1))
        self.corpus, self.ears, self.longest, self.much = corpus, ears, longest, much
        self.owners = np.repeat(np.arange(len(corpus)), parts)  # the recording that each crop is of
        self.numbers = np.arange(len(self.owners)) - np.repeat(np.cumsum(parts) - parts, parts)
        self.left_out = int((parts == 0).sum())
        if not len(self.owners):
            raise Problem(f"no recording has {shortest:,} samples, the fewest to learn from. Give longer ones.")
        super().__init__(np.minimum(lengths[self.owners], longest), max(budget, longest), seed)

    def __len__(self) -> int:
        return len(self.owners)

    def lines(self) -> list[str]:
        seconds = self._costs.mean() / self.corpus.rate
        return [
            f"{len(self):,} crops of {seconds:.1f} s on average; recordings left out as too short: {self.left_out:,}"
        ]

    def at(self, position: int) -> dict[str, Any]:
        draw = np.random.default_rng([self.seed, position])
        waves = [self.crop(number, draw) for number in self.numbers_at(position)]
        return {**laid(waves), "position": position}

    def crop(self, number: int, draw: np.random.Generator) -> np.ndarray:
        owner, size = self.owners[number], int(self._costs[number])
        spare = int(self.corpus.lengths[owner]) % size if size == self.longest else 0
        begin = int(self.numbers[number]) * size + int(draw.integers(spare + 1))
        wave = self.corpus.wave(owner, begin, begin + size)
        return self.ears.ready(varied(wave, self.much, draw) if self.much else wave, 1)


@dataclass(frozen=True, eq=False)
class Spoken:
    """Recordings and their letters, as examples to learn from."""

    corpus: SoundCorpus
    ears: Ears
    letters: Sequence[list[int]]  # of every recording
    chosen: Sequence[int]  # those to learn from
    least: int  # samples
    notes: Sequence[str] = ()  # what a person should know
    much: float = 0.0  # how much each is varied

    def __len__(self) -> int:
        return len(self.chosen)

    def batch(self, numbers: np.ndarray, draw: np.random.Generator | None = None) -> dict[str, Any]:
        """These recordings; varied, if something is drawn."""
        some = [self.chosen[number] for number in numbers]
        waves = [self.corpus.wave(number) for number in some]
        if self.much and draw is not None:
            waves = [varied(wave, self.much, draw) for wave in waves]
        ready = [self.ears.ready(wave, self.least) for wave in waves]
        return {**laid(ready), "letters": Tokens.of([self.letters[number] for number in some])}


class SpokenBatches(ExampleBatches):
    """Batches of so many recordings.  How each is varied is drawn anew for every position."""

    examples: Spoken  # type: ignore[assignment]

    def at(self, position: int) -> dict[str, Any]:
        return self.examples.batch(self.numbers_at(position), np.random.default_rng([self.seed, position]))


def laid(waves: Sequence[np.ndarray]) -> dict[str, Any]:
    """Waves end to end, and how long each is."""
    return {"wave": torch.from_numpy(np.concatenate(waves)), "lengths": [len(wave) for wave in waves]}
