"""What can be looked at: one name for an RNN's source states, a cross-attention cache and a growing key-value cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.rows import Rows


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys and values of rows laid end to end.  A value: passed and returned, never kept in a module.

    Queries that follow a memory are always its last places: three queries on a memory of ten stand at 7, 8 and 9.
    """

    k: Tensor  # (M, H, D)
    v: Tensor  # (M, H, D)
    rows: Rows

    def grown(self, more: Memory) -> Memory:
        """This memory with more at the end of each row."""
        a, b = self.rows, more.rows
        rows = a.grown(b)
        if a.is_even and b.is_even:

            def joined(x: Tensor, y: Tensor) -> Tensor:
                return torch.cat([a.pad(x), b.pad(y)], 1).flatten(0, 1)

        else:
            order = torch.cat([a.row, b.row]).argsort(stable=True)

            def joined(x: Tensor, y: Tensor) -> Tensor:
                return torch.cat([x, y])[order]

        return Memory(joined(self.k, more.k), joined(self.v, more.v), rows)

    def select(self, chosen: Tensor) -> Memory:
        """The memory of the chosen rows, in that order; a row may be chosen twice."""
        tokens, rows = self.rows.tokens_of(chosen)
        return Memory(self.k[tokens], self.v[tokens], rows)
