"""Chunks of tokens that are alike, found by hashing, and chunks of neighbours (Reformer, Kitaev et al., 2020).

Letters: N tokens, B rows; R rounds of hashing, H heads, D size of a head; C chunks, S slots of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.memory import Choice, Memory
from regard.attention.pieces import in_pieces
from regard.attention.route import Meeting, Route
from regard.attention.route_sorted import Asked, Reach, Sorted
from regard.rows import Rows

HASHED = 2**26  # numbers that are compared at once to find buckets
EPSILON = 1e-6


class Local(Route):
    """A chunk of neighbours looks at itself and at the chunks beside it."""

    anew = True

    def __init__(self, reach: Reach):
        super().__init__()
        self.reach = reach

    def sorted(self, q: Tensor, rows: Rows) -> Sorted:
        chunks = self.reach.chunks(rows)
        order = torch.arange(chunks.real.numel(), device=q.device).expand(1, q.shape[1], -1)
        return Sorted(chunks, order, self.reach, own=True)

    def forward(self, met: Meeting) -> Tensor:
        met.check_whole()
        return self.sorted(met.q, met.rows).attend(Asked.of(met))

    def weights(self, met: Meeting) -> Tensor:
        met.check_whole()
        return self.sorted(met.q, met.rows).weights(Asked.of(met), met.rows)


@dataclass(frozen=True, eq=False)
class Bucketed(Memory):
    """A memory whose keys have been hashed."""

    buckets: Tensor  # (R, H, N)

    def select(self, choice: Choice | Tensor) -> Bucketed:
        choice = choice if isinstance(choice, Choice) else Choice(choice)
        fewer = super().select(choice)
        if fewer is self:
            return self
        return Bucketed(fewer.k, fewer.v, fewer.rows, self.buckets[..., choice.tokens_of(self.rows)[0]])


class Hashed(Route):
    """Tokens are sorted by their buckets, and the chunks of the sorted ones look at themselves and beside them, once a
    round; a round counts by how much it found.  Queries are keys, whose length is normed away."""

    anew = True

    def __init__(
        self, reach: Reach, rounds: int, buckets: Sequence[int] = (), *, seed: int | None = None, longest: int = 4096
    ):
        super().__init__()
        self.reach, self.rounds, self.seed, self.longest = reach, rounds, seed, longest
        self.buckets = tuple(buckets)  # factors of how many there are; none: by the length of a row

    def remember(self, x: Tensor, memory: Memory, drawn: Any = None) -> Memory:
        buckets = self.hash(memory.k, memory.rows) if drawn is None else drawn
        return Bucketed(in_pieces(normed, memory.k), memory.v, memory.rows, buckets)

    def drawn(self, memory: Memory) -> Any:
        return cast(Bucketed, memory).buckets

    def forward(self, met: Meeting) -> Tensor:
        met.check_whole()
        return self.sorted(met.memory, met.rows).attend(Asked.of(met))

    def weights(self, met: Meeting) -> Tensor:
        met.check_whole()
        return self.sorted(met.memory, met.rows).weights(Asked.of(met), met.rows)

    def sorted(self, memory: Memory, rows: Rows) -> Sorted:
        """Slots in the order of their rows, and in a row by bucket; empty ones last."""
        chunks = self.reach.chunks(rows)
        buckets = memory.buckets if isinstance(memory, Bucketed) else self.hash(memory.k, rows)
        last = int(2 * self.longest) if not self.buckets else math.prod(self.buckets)
        found = torch.where(chunks.real.flatten(), buckets[..., chunks.token.flatten()], last)  # (R, H, C S)
        row = (chunks.row + (chunks.number >= chunks.count)).repeat_interleave(chunks.size)
        order = (row * (last + 1) + found).sort(stable=True).indices
        return Sorted(chunks, order, self.reach, own=False)

    @torch.no_grad()
    def hash(self, k: Tensor, rows: Rows) -> Tensor:  # (N, H, D) -> (R, H, N)
        """The bucket of each key in each round: which of random directions it points to most (Andoni et al., 2015)."""
        seed = self.seed if self.seed is not None else int(torch.randint(2**31, ())) if self.training else 0
        if self.buckets:
            return self.among(self.buckets, k, seed)
        found = torch.zeros(self.rounds, k.shape[1], len(k), dtype=torch.int32, device=k.device)
        factors = self.factors_of_rows(rows)
        for some in set(factors):
            alike = torch.tensor([factor == some for factor in factors], device=k.device)
            tokens = alike[rows.row].nonzero().squeeze(1)
            found[..., tokens] = self.among(some, k[tokens], seed)
        return found

    def factors_of_rows(self, rows: Rows) -> list[tuple[int, ...]]:
        """About twice as many buckets as a row has chunks, a power of two; many of them as two factors."""
        size, least, multiple = self.reach.size, self.reach.least, self.reach.multiple or self.reach.size
        limit = 2 * max(int((self.longest // size) ** 0.5), size)
        found: list[tuple[int, ...]] = []
        for length in rows.lengths.tolist():
            whole = -(-length // multiple) * multiple if length > least else size
            power = max((2 * (whole // size)).bit_length() - 1, 1)
            found.append((2**power,) if 2**power <= limit else (2 ** (power // 2), 2 ** (power - power // 2)))
        return found

    def among(self, factors: Sequence[int], k: Tensor, seed: int) -> Tensor:  # (N, H, D) -> (R, H, N)
        heads, size = k.shape[1:]
        chance = torch.Generator().manual_seed(seed)
        shape = heads, size, self.rounds, sum(factors) // 2
        directions = torch.randn(shape, generator=chance).to(k.device, k.dtype).permute(2, 0, 1, 3)  # (R, H, D, half)
        together = max(HASHED // (self.rounds * heads * sum(factors)), 1)
        parts = [bucket_of(some.transpose(0, 1) @ directions, factors) for some in k.split(together)]
        return torch.cat(parts, -1)


def normed(k: Tensor) -> Tensor:
    return F.rms_norm(k, k.shape[-1:], eps=EPSILON).to(k.dtype)


def bucket_of(turned: Tensor, factors: Sequence[int]) -> Tensor:  # (R, H, N, half) -> (R, H, N)
    found, product = torch.zeros((), dtype=torch.int32, device=turned.device), 1
    for part, factor in zip(turned.split([factor // 2 for factor in factors], -1), factors, strict=True):
        found = found + product * torch.cat([part, -part], -1).argmax(-1).int()
        product *= factor
    return found
