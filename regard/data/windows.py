"""A text that is too long for one row, in stretches that overlap, so that each piece is read amid what surrounds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.errors import UsageProblem

OVERLAP = 128  # pieces that a stretch shares with the one before it, in rows that are long enough


@dataclass(frozen=True)
class Windows:
    """Stretches of `size` pieces, which share `overlap` of them; the last may be shorter."""

    size: int
    overlap: int

    @classmethod
    def of(cls, room: int) -> Windows:
        """As large as the room that a row has for them."""
        if room < 1:
            raise UsageProblem(f"a row has no room for text: it is {1 - room} pieces too short; allow longer rows")
        return cls(room, min(OVERLAP, room // 2))

    @property
    def step(self) -> int:
        return self.size - self.overlap

    def over(self, length: int) -> list[range]:
        """Those of a text of so many pieces; one, which is empty, if it has none."""
        starts = range(0, max(length - self.overlap, 1), self.step)
        return [range(start, min(start + self.size, length)) for start in starts]

    def owners(self, pieces: np.ndarray, count: int) -> np.ndarray:
        """Of `count` stretches, the one in which each piece has the most on its narrower side."""
        return np.clip((pieces - self.overlap // 2) // self.step, 0, count - 1)
