"""Memories of a fixed size that stay where they are: a step over them is the same kernels every time, whatever they
hold, so that a GPU can be given all of them at once.

The beams of a sentence lie side by side and look at the places of all of them; a table says which are their own.  When
beams change places, nothing moves but the table.
Letters: S sentences, K beams of each, B = S * K rows, T places of a row, H heads, D size of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.memory import Choice, Memory, Room
from regard.attention.one_query import one_query_can
from regard.rows import Rows, kept


@dataclass(frozen=True, eq=False)
class FixedRows(Rows):
    """Rows of which only the device knows how many places are filled; none has more than `longest`."""

    filled: Tensor  # (B,)
    base: Tensor  # (B,) where the first place of each row lies in a grid, flattened; the next ones are K apart
    numbers: Tensor  # (T or more,) of places, and of beams
    shades: Tensor  # (2,) what is added to logits where a row may not look, and where it may
    owner: Tensor | None = None  # (B, T) for beams: in which row of its sentence each place of a row lies
    beams: int = 1

    @classmethod
    def empty(cls, sentences: int, beams: int, places: int, like: Tensor) -> FixedRows:
        """Nothing is filled, of memories such as this."""
        device, low = like.device, torch.finfo(like.dtype).min / 2  # finite: rows without keys must not become NaN
        first = torch.arange(sentences, device=device)[:, None] * (places * beams)
        base = (first + torch.arange(beams, device=device)).flatten()
        lanes = torch.arange(beams, device=device, dtype=torch.int16).repeat(sentences)
        owner = lanes[:, None].repeat(1, places) if beams > 1 else None
        offsets = torch.arange(len(base) + 1, dtype=torch.int32, device=device) * places
        numbers = torch.arange(max(places, beams), device=device)
        shades = torch.tensor([low, 0.0], dtype=like.dtype, device=device)
        return cls(offsets, len(base) * places, places, torch.zeros_like(base), base, numbers, shades, owner, beams)

    @property
    def is_even(self) -> bool:
        return False

    @property
    def lengths(self) -> Tensor:  # (B,)
        return self.filled

    def grown(self, more: Rows) -> FixedRows:
        return replace(self, filled=self.filled + more.lengths)

    @kept  # type: ignore[arg-type]
    def last(self) -> Tensor:  # (B,)
        """Where the last place of each row lies in a grid.  A row that nobody writes may be full: it stays inside."""
        place = (self.filled - 1).clamp(max=self.longest - 1)
        return self.base + (place if self.beams == 1 else place * self.beams)

    @kept  # type: ignore[arg-type]
    def real(self) -> Tensor:  # (B, T) which places are filled
        return self.numbers[: self.longest] < self.filled[:, None]

    @kept  # type: ignore[arg-type]
    def cells(self) -> Tensor:  # (B, T) where each place of a row lies in a grid
        first = self.base[:: self.beams].repeat_interleave(self.beams)[:, None]
        places = first + self.numbers[: self.longest] * self.beams
        return places if self.owner is None else places + self.owner[:, : self.longest]

    @kept  # type: ignore[arg-type]
    def allowed(self) -> Tensor:  # (S, 1, K, T * K)
        """Where a row may look among the places of its sentence."""
        if self.owner is None:
            return self.real[:, None, None]
        lanes = self.numbers[: self.beams]
        own = (self.owner[:, : self.longest, None] == lanes) & self.real[..., None]  # (B, T, K)
        return own.view(-1, 1, self.beams, self.longest * self.beams)

    @kept  # type: ignore[arg-type]
    def added(self) -> Tensor:  # (S, 1, K, T * K)
        """What forbids to look elsewhere when it is added; the same for all layers, so it is made once a step."""
        return torch.where(self.allowed, self.shades[1], self.shades[0])

    @property
    def lanes(self) -> Tensor:  # (K, 1)
        """The rows of a sentence, each of which begins as its own."""
        return self.numbers[: self.beams, None].to(torch.int16)

    def spread(self, bias: Tensor) -> Tensor:  # (B, H, 1, T) -> (S, H, K, T * K)
        """A bias of the places of each row, for the places of its sentence."""
        if self.beams == 1:
            return bias
        each = bias.squeeze(2).unflatten(0, (-1, self.beams)).transpose(1, 2)  # (S, H, K, T)
        return each[..., None].expand(-1, -1, -1, -1, self.beams).flatten(-2)


@dataclass(frozen=True, eq=False)
class FixedRoom(Room):
    """A memory in a grid that is never replaced.  Its keys and values are (S, T, K, H, D), where T may be more places
    than its rows say are looked at."""

    rows: FixedRows
    new: Memory | None = None  # of the last place of each row, where it is yet to be written

    @classmethod
    def like(cls, memory: Memory | Room, rows: FixedRows) -> FixedRoom:
        """An empty one."""
        shape = len(rows) // rows.beams, rows.longest, rows.beams
        keys, values = (grid.new_zeros(*shape, *grid.shape[-2:]) for grid in grids(memory))
        return cls(keys, values, rows)

    @property
    def k(self) -> Tensor:  # (M, H, D)
        return self.written().keys.flatten(0, 2)[self.rows.cells[self.rows.real]]

    @property
    def v(self) -> Tensor:  # (M, H, D)
        return self.written().values.flatten(0, 2)[self.rows.cells[self.rows.real]]

    def flat(self) -> Memory:
        return Memory(self.k, self.v, Rows.of(self.rows.filled, self.keys.device))

    def grown(self, more: Memory, rows: Rows | None = None) -> FixedRoom:
        """With one more place in each row, which makes these rows; a kernel that looks at it may write it, too."""
        grown = FixedRoom(self.keys, self.values, rows or self.rows.grown(more.rows), more)  # type: ignore[arg-type]
        return grown if one_query_can(self.keys) else grown.written()

    def written(self) -> FixedRoom:
        """The same, with all that is new in its place."""
        if self.new is None:
            return self
        for grid, new in ((self.keys, self.new.k), (self.values, self.new.v)):
            grid.flatten(0, 2).index_copy_(0, self.rows.last, new)
        return FixedRoom(self.keys, self.values, self.rows)

    def put(self, slots: Tensor, memory: Memory | Room) -> None:
        """In place of the sentences at these slots, others; rows of the memory are their beams, side by side."""
        room = memory if isinstance(memory, Room) else Room.of(memory)
        filled, beams = room.rows.longest, self.rows.beams
        for grid, new in ((self.keys, room.keys), (self.values, room.values)):
            grown = new[:, :filled].unflatten(0, (-1, beams)).transpose(1, 2)  # (n, T, K, H, D)
            grid[:, :filled].index_copy_(0, slots, grown.to(grid.dtype))

    def take(self, begins: Tensor, room: Room) -> None:  # (S,)
        """As `put`, for the slots that are marked, of a room that has a row for every slot and maybe more; with zeros
        behind the rows."""
        places, marked = room.rows.longest, begins[:, None, None, None]
        for grid, new in ((self.keys, room.keys), (self.values, room.values)):
            near, far = grid[:, :places, 0], grid[:, places:, 0]
            near.copy_(torch.where(marked, new[: len(grid), :places].to(grid.dtype), near))
            if not one_query_can(grid):
                far.masked_fill_(marked, 0.0)

    def clear(self, slots: Tensor) -> None:
        """Zeros, which say nothing to whoever looks at them.  Our kernel looks at what is filled, and at no more."""
        for grid in () if one_query_can(self.keys) else (self.keys, self.values):
            grid.index_fill_(0, slots, 0.0)

    def select(self, choice: Choice | Tensor) -> Room:
        return Room.of(self.flat()).select(choice)

    def within(self, rows: FixedRows) -> FixedRoom:
        """The same grid, of which rows look at fewer places."""
        return FixedRoom(self.keys, self.values, rows)


def grids(memory: Memory | Room) -> tuple[Tensor, Tensor]:  # (..., H, D) each
    """Keys and values as they lie."""
    return (memory.keys, memory.values) if isinstance(memory, Room) else (memory.k, memory.v)
