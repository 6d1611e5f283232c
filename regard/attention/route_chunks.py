"""Rows cut into chunks of one size, of which each looks at itself and at its neighbours.

Letters: N tokens, B rows; C chunks of all rows together, S slots of a chunk, of which some may be empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.rows import Rows


@dataclass(frozen=True, eq=False)
class Chunks:
    """Which token lies in which slot.  Every row begins a chunk."""

    size: int
    row: Tensor  # (C,) the row of each chunk; behind the last row there may be chunks without tokens
    number: Tensor  # (C,) which chunk of its row it is,
    count: Tensor  # (C,) of how many
    place: Tensor  # (C, S) of each slot in its row; an empty slot has that of the row's last token
    token: Tensor  # (C, S) of each slot; an empty slot has the first of all
    real: Tensor  # (C, S) whether there is a token
    slot: Tensor  # (N,) where each token lies, all slots laid end to end

    @classmethod
    def of(cls, rows: Rows, size: int, least: int = 0, multiple: int | None = None) -> Chunks:
        """Rows of more than `least` tokens have slots for a multiple of `multiple`."""
        lengths, multiple = rows.lengths, multiple or size
        counts = torch.where(lengths > least, rounded(lengths, multiple), rounded(lengths, size)) // size  # (B,)
        ends = counts.cumsum(0)
        first = ends - counts
        every = torch.arange(most_chunks(rows, ends, size, multiple), device=lengths.device)
        row = torch.searchsorted(ends, every, right=True).clamp(max=max(len(rows) - 1, 0))
        place = (every - first[row])[:, None] * size + torch.arange(size, device=lengths.device)
        real = place < lengths[row][:, None]
        token = torch.where(real, rows.first[row][:, None] + place, 0)
        inside = torch.minimum(place, (lengths[row] - 1)[:, None]).clamp(min=0)
        slot = first[rows.row] * size + rows.at
        return cls(size, row, every - first[row], counts[row], inside, token, real, slot)

    def near(self, before: int, after: int) -> tuple[Tensor, Tensor]:  # (C, before + 1 + after) each
        """The chunks that each looks at; and whether they are there, for a row has an end."""
        steps = torch.arange(-before, after + 1, device=self.row.device)
        number = self.number[:, None] + steps
        there = (number >= 0) & (number < self.count[:, None])
        every = torch.arange(len(self.row), device=self.row.device)[:, None]
        return torch.where(there, every + steps, every), there

    def around(self, before: int, after: int, rounds: int = 1) -> Tensor:  # (rounds * C, before + 1 + after)
        """Likewise where a row's end is joined to its beginning, all rounds of a row laid end to end."""
        steps = torch.arange(-before, after + 1, device=self.row.device)
        which = torch.arange(rounds, device=self.row.device)[:, None, None]
        count = self.count.clamp(min=1)[:, None]
        at = (which * count + self.number[:, None].clamp(max=count - 1) + steps) % (rounds * count)
        first = torch.arange(len(self.row), device=self.row.device) - self.number  # where a row's chunks begin
        found = at // count * len(self.row) + (first[:, None] + at % count).clamp(max=len(self.row) - 1)
        return found.flatten(0, 1)


def rounded(numbers: Tensor, multiple: int) -> Tensor:
    return -(-numbers // multiple) * multiple


def most_chunks(rows: Rows, ends: Tensor, size: int, multiple: int) -> int:
    """How many chunks there are; on a GPU a bound, which is known without waiting for it."""
    if ends.device.type == "cpu":
        return int(ends[-1]) if len(ends) else 0
    even = -(-rows.longest // multiple) * multiple // size
    return len(rows) * even if rows.is_even else rows.total // size + len(rows) * (multiple // size)
