"""Rows as an encoder reads them, with what is to be learned of each; and batches of them for training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import Order, rows_of, tensor_of
from regard.data.parallel import TOGETHER, Ragged
from regard.rows import Tokens

Row = tuple[list[int], list[int]]  # ids, and their segments


@dataclass(frozen=True, eq=False)
class Framed:
    """Rows of ids, special tokens among them, and the segment of each id."""

    ids: Ragged
    types: Ragged
    whole: np.ndarray | None = None  # (rows,) how long each would be, had it not been truncated; None: as it is

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Framed:
        """Taken in portions, so that lists of Python numbers never fill the memory."""
        rows, parts = iter(rows), [(Ragged.of([]), Ragged.of([]))]
        while some := list(islice(rows, TOGETHER)):
            parts.append((Ragged.of([ids for ids, _ in some]), Ragged.of([types for _, types in some])))
        return cls(Ragged.join([ids for ids, _ in parts]), Ragged.join([types for _, types in parts]))

    @classmethod
    def alone(cls, parts: Iterable[list[list[int]]]) -> Framed:
        """Rows of one text each, in portions."""
        ids = Ragged.join([Ragged.of([]), *map(Ragged.of, parts)])
        return cls(ids, Ragged(np.zeros_like(ids.ids), ids.offsets))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:  # (rows,)
        return self.ids.lengths

    def take(self, numbers: Sequence[int] | np.ndarray) -> Framed:
        """The chosen rows, in that order."""
        chosen = np.asarray(numbers, np.int64)
        whole = None if self.whole is None else self.whole[chosen]
        return Framed(self.ids.take(chosen), self.types.take(chosen), whole)

    def batch(self, numbers: Sequence[int] | np.ndarray) -> tuple[Tokens, Tensor]:
        """The chosen rows as a model reads them, and their segments, (N,)."""
        some = self.take(numbers)
        return Tokens(tensor_of(some.ids.ids), rows_of(some.lengths)), tensor_of(some.types.ids)

    def cut(self, longest: int, groups: np.ndarray | None = None) -> list[str]:
        """A warning, if examples were truncated to `longest` tokens.  Of an example of several rows, `groups` says from
        which to which it reaches."""
        truncated = np.zeros(len(self), bool) if self.whole is None else self.whole > self.lengths
        if groups is not None:
            truncated = np.add.reduceat(truncated, groups[:-1]) > 0 if len(groups) > 1 else truncated
        count = int(truncated.sum())
        return [f"warning: {count:,} of {len(truncated):,} examples truncated to {longest} tokens"] if count else []


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows, and what is wanted of each: an array with an entry a row, or lists with an entry a token.

    Where an example has several rows (the choices of a question), `groups` says from which row to which each reaches,
    and what is wanted has an entry a group.
    """

    framed: Framed
    wanted: np.ndarray | Ragged
    groups: np.ndarray | None = None  # (examples + 1,) int64
    notes: Sequence[str] = ()  # how the data became rows, where a person should know

    def __len__(self) -> int:
        return len(self.framed) if self.groups is None else len(self.groups) - 1

    def batch(self, numbers: np.ndarray) -> dict[str, Any]:
        rows, batch = numbers, dict[str, Any]()
        if self.groups is not None:
            counts = self.groups[numbers + 1] - self.groups[numbers]
            rows = np.fromiter(chain.from_iterable(range(*self.groups[n : n + 2]) for n in numbers), np.int64)
            batch["groups"] = rows_of(counts)
        batch["tokens"], batch["types"] = self.framed.batch(rows)
        wanted = self.wanted.take(numbers).ids if isinstance(self.wanted, Ragged) else self.wanted[numbers]
        batch["wanted"] = torch.from_numpy(wanted)
        return batch


class ExampleBatches(Order):
    """Batches of so many examples, in another order each epoch.  Lengths may mix, for nothing is padded."""

    def __init__(self, examples: Examples, size: int, seed: int):
        super().__init__(np.ones(len(examples)), size, seed)
        self.examples = examples

    def at(self, position: int) -> dict[str, Any]:
        return self.examples.batch(self.numbers_at(position))
