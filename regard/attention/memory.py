"""What can be looked at: one name for an RNN's source states, a cross-attention cache and a growing key-value cache.

Letters: M keys of all rows together, B rows, T places of a row, H heads, D size of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.rows import Rows


class Choice:
    """Rows that are chosen, in that order; a row may be chosen twice, or not at all.  Layers ask it the same."""

    def __init__(self, chosen: Tensor):
        self.chosen = chosen
        self.known: dict[Rows, tuple[Tensor, Rows]] = {}

    @cached_property
    def in_order(self) -> bool:
        """From the first row on, each of them once."""
        return torch.equal(self.chosen, torch.arange(len(self.chosen), device=self.chosen.device))

    def shared(self, each: int) -> Choice:
        """What is chosen of memories that serve so many rows each, which lie side by side and are chosen together."""
        return self if each == 1 else Choice(self.chosen[::each] // each)

    def is_all(self, rows: Rows) -> bool:
        return len(rows) == len(self.chosen) and self.in_order

    def tokens_of(self, rows: Rows) -> tuple[Tensor, Rows]:
        if rows not in self.known:
            self.known[rows] = rows.tokens_of(self.chosen)
        return self.known[rows]


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys and values of rows laid end to end.  A value: passed and returned, never kept in a module.

    Queries that follow a memory are always its last places: three queries on a memory of ten stand at 7, 8 and 9.
    """

    k: Tensor  # (M, H, D)
    v: Tensor  # (M, H, D)
    rows: Rows

    def grown(self, more: Memory, rows: Rows | None = None) -> Memory | Room:
        """This memory with more at the end of each row, which makes these rows: in place, if no gradient goes back."""
        if not torch.is_grad_enabled():
            return Room.of(self).grown(more, rows)
        a, b = self.rows, more.rows
        if a.is_even and b.is_even:

            def joined(x: Tensor, y: Tensor) -> Tensor:
                return torch.cat([a.pad(x), b.pad(y)], 1).flatten(0, 1)

        else:
            order = torch.cat([a.row, b.row]).argsort(stable=True)

            def joined(x: Tensor, y: Tensor) -> Tensor:
                return torch.cat([x, y])[order]

        return Memory(joined(self.k, more.k), joined(self.v, more.v), rows or a.grown(b))

    def select(self, choice: Choice | Tensor) -> Memory:
        """The memory of the chosen rows."""
        choice = choice if isinstance(choice, Choice) else Choice(choice)
        if choice.is_all(self.rows):
            return self
        tokens, rows = choice.tokens_of(self.rows)
        return Memory(self.k[tokens], self.v[tokens], rows)


@dataclass(frozen=True, eq=False)
class Room:
    """A memory in a grid with places to spare: what is new is written in place, and nothing else is touched.

    A value that shares its grid.  Of two memories that were grown from one, only the later is right: to go two ways,
    select first.  It knows no gradients.
    """

    keys: Tensor  # (B, T, H, D), numbers up to the longest row, also where a shorter one is not filled
    values: Tensor  # (B, T, H, D)
    rows: Rows  # how many places of each row are filled

    @classmethod
    def of(cls, memory: Memory) -> Room:
        return cls(memory.rows.pad(memory.k), memory.rows.pad(memory.v), memory.rows)

    @property
    def k(self) -> Tensor:  # (M, H, D)
        return self.rows.unpad(self.keys[:, : self.rows.longest])

    @property
    def v(self) -> Tensor:  # (M, H, D)
        return self.rows.unpad(self.values[:, : self.rows.longest])

    def flat(self) -> Memory:
        """The same, its rows laid end to end."""
        return Memory(self.k, self.v, self.rows)

    def grown(self, more: Memory, rows: Rows | None = None) -> Room:
        """With more at the end of each row, which makes these rows; in the same grid while it has places."""
        rows = rows or self.rows.grown(more.rows)
        room = self if rows.longest <= self.keys.shape[1] else self.widened(2 * rows.longest)
        places = self.rows.lengths[more.rows.row] + more.rows.at + more.rows.row * room.keys.shape[1]  # (N,)
        for grid, new in ((room.keys, more.k), (room.values, more.v)):
            if not rows.is_even:
                grid[:, self.rows.longest : rows.longest] = 0.0
            grid.flatten(0, 1).index_copy_(0, places, new.to(grid.dtype))
        return Room(room.keys, room.values, rows)

    def widened(self, places: int) -> Room:
        """With so many places in each row."""
        spare = 0, 0, 0, 0, 0, places - self.keys.shape[1]
        return Room(F.pad(self.keys, spare), F.pad(self.values, spare), self.rows)

    def select(self, choice: Choice | Tensor) -> Room:
        """The memory of the chosen rows, of which only the filled places are copied."""
        choice = choice if isinstance(choice, Choice) else Choice(choice)
        if choice.is_all(self.rows):
            return self
        _, rows = choice.tokens_of(self.rows)
        return replace(self, keys=self.chosen(self.keys, choice), values=self.chosen(self.values, choice), rows=rows)

    def chosen(self, grid: Tensor, choice: Choice) -> Tensor:  # (B, T, H, D) -> (chosen, T, H, D)
        new, filled = grid.new_empty(len(choice.chosen), *grid.shape[1:]), self.rows.longest
        torch.index_select(grid[:, :filled], 0, choice.chosen, out=new[:, :filled])
        return new


@dataclass(frozen=True, eq=False)
class Still(Room):
    """One that many steps look at and none makes longer: its grids are views of (B, H, D, T), of which a CPU can make
    products as they lie."""

    @classmethod
    def of(cls, memory: Memory | Room) -> Still:
        room = memory if isinstance(memory, Room) else Room.of(memory)
        keys, values = (grid.movedim(1, -1).contiguous().movedim(-1, 1) for grid in (room.keys, room.values))
        return cls(keys, values, room.rows)

    def grown(self, more: Memory, rows: Rows | None = None) -> Room:
        return Room(self.keys.contiguous(), self.values.contiguous(), self.rows).grown(more, rows)

    def chosen(self, grid: Tensor, choice: Choice) -> Tensor:  # (B, T, H, D) -> (chosen, T, H, D)
        return grid.movedim(1, -1).index_select(0, choice.chosen).movedim(-1, 1)
