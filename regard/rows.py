"""A batch without padding: its rows laid end to end, and where each of them begins.

Letters here and everywhere: B rows, N tokens of all rows together, T the longest row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor


class kept:
    """A property computed when first asked for.  Unlike functools.cached_property it takes no lock, which would break
    torch.compile's graph, and what was first asked for in inference mode serves in training too."""

    def __init__(self, compute: Callable[[Rows], Tensor]):
        self.compute, self.name = compute, compute.__name__

    def __get__(self, rows: Rows, kind: type[Rows] | None = None) -> Tensor:
        with torch.inference_mode(False):
            rows.__dict__[self.name] = value = self.compute(rows)
        return value


@dataclass(frozen=True, eq=False)
class Rows:
    """Where each row of a batch begins and ends in a tensor whose tokens lie end to end.

    `total` and `longest` are plain numbers, so that a kernel can be chosen and a tensor allocated without waiting
    for the device.
    """

    offsets: Tensor  # (B + 1,) int32, on the tokens' device
    total: int
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int] | Tensor, device: torch.device | str | None = None) -> Rows:
        sizes = torch.as_tensor(lengths, dtype=torch.int32, device="cpu")
        offsets = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
        longest = int(sizes.max()) if len(sizes) else 0
        return cls(offsets.to(device, non_blocking=True) if device else offsets, int(offsets[-1]), longest)

    @classmethod
    def even(cls, count: int, length: int, device: torch.device | str | None = None) -> Rows:
        return cls(torch.arange(count + 1, dtype=torch.int32, device=device) * length, count * length, length)

    def to(self, device: torch.device | str) -> Rows:
        moved = Rows(self.offsets.to(device, non_blocking=True), self.total, self.longest)
        if "sizes" in self.__dict__ or self.offsets.device.type == "cpu":
            moved.__dict__["sizes"] = self.sizes
        return moved

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def is_even(self) -> bool:
        """All rows are equally long: tokens are a rectangle already."""
        return self.total == len(self) * self.longest

    @kept
    def lengths(self) -> Tensor:  # (B,)
        return self.offsets.diff().long()

    @kept
    def sizes(self) -> Tensor:  # (B,)
        """The lengths on the CPU, for kernels that are told of them there.  Rows that were moved to a device took them
        along; otherwise it is waited for."""
        return self.lengths.cpu()

    @property
    def first(self) -> Tensor:  # (B,) where each row's first token lies
        return self.offsets[:-1].long()

    @property
    def last(self) -> Tensor:  # (B,) where each row's last token lies
        return self.offsets[1:].long() - 1

    @kept
    def row(self) -> Tensor:  # (N,) the row each token is in
        rows = torch.arange(len(self), device=self.offsets.device)
        return rows.repeat_interleave(self.lengths, output_size=self.total)

    @kept
    def at(self) -> Tensor:  # (N,) the place of each token in its row
        return torch.arange(self.total, device=self.offsets.device) - self.first[self.row]

    @kept
    def real(self) -> Tensor:  # (B, T) where the padded grid holds a token
        return torch.arange(self.longest, device=self.offsets.device) < self.lengths[:, None]

    @kept
    def slots(self) -> Tensor:  # (N,) where each token lies in the padded grid, flattened
        return self.row * self.longest + self.at

    def pad(self, x: Tensor) -> Tensor:  # (N, ...) -> (B, T, ...)
        """The rectangle some kernels need; zeros where there is no token."""
        if not self.is_even:
            x = x.new_zeros(len(self) * self.longest, *x.shape[1:]).index_copy_(0, self.slots, x)
        return x.view(len(self), self.longest, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:  # (B, T, ...) -> (N, ...)
        x = x.flatten(0, 1)
        return x if self.is_even else x.index_select(0, self.slots)  # whose way back need not sort

    def split(self, x: Tensor) -> list[Tensor]:  # (N, ...) -> B tensors, a row each
        return list(x.split(self.lengths.tolist()))

    def grown(self, more: Rows) -> Rows:
        """Each row with another row behind it."""
        return Rows(self.offsets + more.offsets, self.total + more.total, self.longest + more.longest)

    def tokens_of(self, chosen: Tensor) -> tuple[Tensor, Rows]:
        """The indices of the tokens of the chosen rows, in that order (a row may be chosen twice), and their Rows."""
        if self.is_even:
            rows = Rows.even(len(chosen), self.longest, self.offsets.device)
            places = torch.arange(self.longest, device=self.offsets.device)
            return (chosen[:, None] * self.longest + places).flatten(), rows
        rows = Rows.of(self.lengths[chosen], self.offsets.device)
        return self.first[chosen][rows.row] + rows.at, rows


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids laid end to end, with the rows they form."""

    ids: Tensor  # (N,) int64
    rows: Rows

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], device: torch.device | str | None = None) -> Tokens:
        ids = torch.tensor([i for row in rows for i in row], dtype=torch.long)
        return cls(ids.to(device) if device else ids, Rows.of([len(row) for row in rows], device))

    def to(self, device: torch.device | str) -> Tokens:
        return Tokens(self.ids.to(device, non_blocking=True), self.rows.to(device))

    def __len__(self) -> int:
        return len(self.rows)

    def tolist(self) -> list[list[int]]:
        ids, ends = self.ids.tolist(), self.rows.offsets.tolist()
        return [ids[start:end] for start, end in pairwise(ends)]
