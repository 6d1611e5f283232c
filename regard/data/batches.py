"""Batches by token budget, bucketed by length, in an order that is a pure function of seed, epoch and position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.parallel import Encoded
from regard.errors import UsageProblem
from regard.rows import Rows, Tokens

POOL = 100  # batches whose pairs are sorted together: alike enough inside a batch, yet another mix every epoch
REMEMBERED = 2  # epochs whose plans are kept


class Order:
    """Which examples are in which batch; batches are numbered over all epochs.

    A batch costs at most `budget`; an example that costs more has a batch to itself.  Epochs are cut anew, so that one
    may have a few batches more than another.
    """

    def __init__(self, costs: np.ndarray, budget: int, seed: int):
        if budget < 1 or seed < 0:
            raise UsageProblem(f"budget {budget} must be at least 1 token and seed {seed} at least 0")
        self.budget, self.seed = budget, seed
        self._costs = costs
        self._starts = [0]  # the position at which each epoch begins, as far as is known
        self._plans: dict[int, list[np.ndarray]] = {}
        self._lock = Lock()  # one thread makes batches while another asks where it stands

    @property
    def per_epoch(self) -> int:
        """The number of batches in the first epoch."""
        with self._lock:
            return len(self._plan(0))

    def epoch_of(self, position: int) -> tuple[int, int]:
        """The epoch of a position, and which of the epoch's batches it is."""
        with self._lock:
            return self._locate(position)

    def numbers_at(self, position: int) -> np.ndarray:
        """The examples of the batch at a position."""
        with self._lock:
            epoch, index = self._locate(position)
            return self._plan(epoch)[index]

    def _locate(self, position: int) -> tuple[int, int]:
        while self._starts[-1] <= position:
            self._starts.append(self._starts[-1] + len(self._plan(len(self._starts) - 1)))
        epoch = bisect_right(self._starts, position) - 1
        return epoch, position - self._starts[epoch]

    def _plan(self, epoch: int) -> list[np.ndarray]:
        if epoch not in self._plans:
            if len(self._plans) == REMEMBERED:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = self._planned(epoch)
        return self._plans[epoch]

    def _planned(self, epoch: int) -> list[np.ndarray]:
        """Shuffle the examples, sort each pool of them by cost, cut it into batches, shuffle those."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self._costs))
        pool = max(1, int(POOL * self.budget / self._costs.mean()))
        order = order[np.lexsort((self._costs[order], np.arange(len(order)) // pool))]
        batches = _cut(order, self._costs[order], self.budget)
        return [batches[i] for i in random.permutation(len(batches))]


class PairBatches(Order):
    """Batches of pairs, each of which costs its longer side."""

    def __init__(self, encoded: Encoded, budget: int, seed: int, begin: int, end: int):
        super().__init__(np.maximum(encoded.source.lengths, encoded.target.lengths + 1), budget, seed)
        self.encoded, self.begin, self.end = encoded, begin, end

    def at(self, position: int) -> dict[str, Any]:
        """The batch at a position: its sources, and its targets as they are read and as they are to be written."""
        chosen = self.numbers_at(position)
        source, target = self.encoded.source.take(chosen), self.encoded.target.take(chosen)
        rows = rows_of(target.lengths + 1)
        return {
            "source": Tokens(tensor_of(source.ids), rows_of(source.lengths)),
            "target_in": Tokens(tensor_of(np.insert(target.ids, target.offsets[:-1], self.begin)), rows),
            "target_out": tensor_of(np.insert(target.ids, target.offsets[1:], self.end)),
        }


def sorted_batches(lengths: Sequence[int] | np.ndarray, budget: int) -> list[list[int]]:
    """The numbers of all rows, longest first, in batches of at most `budget` tokens (a longer row alone)."""
    costs = np.maximum(np.asarray(lengths, np.int64), 1)
    order = np.argsort(-costs, kind="stable")
    return [batch.tolist() for batch in _cut(order, costs[order], budget)]


def _cut(order: np.ndarray, costs: np.ndarray, budget: int) -> list[np.ndarray]:
    """As many in a row as the budget allows, and at least one."""
    spent = np.cumsum(costs)
    batches, start = [], 0
    while start < len(order):
        limit = spent[start] - costs[start] + budget
        end = max(int(np.searchsorted(spent, limit, "right")), start + 1)
        batches.append(order[start:end])
        start = end
    return batches


def tensor_of(ids: np.ndarray) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))


def rows_of(lengths: np.ndarray) -> Rows:
    return Rows.of(torch.from_numpy(lengths))
