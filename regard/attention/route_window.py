"""A window around each token, and chosen tokens that look at all and are looked at by all (Longformer, Beltagy et al.,
2020).

Letters: N tokens, B rows, M chosen tokens of a row at most; C chunks, S slots of a chunk, K keys that it looks at; H
heads, D size of a head, W width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend, attention_weights, flash_can
from regard.attention.mask import FULL, Mask, chosen_keys, window
from regard.attention.memory import Choice, Memory
from regard.attention.route import Meeting, Route
from regard.attention.route_chunks import Chunks
from regard.rows import Rows

SMALLEST = 32  # slots of a chunk: smaller ones are no faster
PAIRS = 2**26  # of queries and keys that are compared at once


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen(Mask):
    """A mask that also says which tokens are chosen."""

    tokens: Tensor  # (N,) bool
    rows: Rows

    def __and__(self, other: Mask) -> Mask:
        both = super().__and__(other)
        return replace(self, allows=both.allows, band=both.band)

    def select(self, tokens: Tensor, rows: Rows, chosen: Tensor) -> Mask:
        """Of these rows, whose tokens these are."""
        allows = lambda row, q, k: self.allows(chosen[row], q, k)  # noqa: E731
        return replace(self, allows=allows, tokens=self.tokens[tokens], rows=rows)

    @cached_property
    def places(self) -> Tensor:  # (all chosen,) which of the N tokens they are
        return self.tokens.nonzero().squeeze(1)

    @cached_property
    def found(self) -> Rows:
        """The chosen tokens as rows."""
        counts = self.rows.row.new_zeros(len(self.rows)).index_add(0, self.rows.row, self.tokens.long())
        return Rows.of(counts.tolist(), self.rows.offsets.device)


def chosen(tokens: Tensor, rows: Rows) -> Mask:  # (N,) bool
    """Who is chosen; who may look at whom is left to the window."""
    return Chosen(FULL.allows, FULL.band, tokens=tokens, rows=rows)


def who(mask: Mask | None) -> Chosen | None:
    """The mask, if it says that some are chosen."""
    return mask if isinstance(mask, Chosen) and len(mask.places) else None


@dataclass(frozen=True, eq=False)
class Read(Memory):
    """A memory with what was read, of which the chosen make keys and values of their own."""

    x: Tensor  # (N, W)

    def select(self, choice: Choice | Tensor) -> Read:
        choice = choice if isinstance(choice, Choice) else Choice(choice)
        fewer = super().select(choice)
        return self if fewer is self else Read(fewer.k, fewer.v, fewer.rows, self.x[choice.tokens_of(self.rows)[0]])


class Window(Route):
    """So many places to either side.  Its time grows with the length times the window."""

    def __init__(self, side: int, width: int, heads: int, size: int, *, bias: bool = True):
        super().__init__()
        self.side, self.heads = side, heads
        self.q, self.k, self.v = (nn.Linear(width, heads * size, bias) for _ in range(3))  # of those that are chosen

    def remember(self, x: Tensor, memory: Memory, drawn: Any = None) -> Memory:
        return Read(memory.k, memory.v, memory.rows, x)

    def forward(self, met: Meeting) -> Tensor:
        met.check_whole()
        some, near = who(met.mask), window(self.side) if met.mask is None else met.mask & window(self.side)
        if some is None and flash_can(met.q, met.memory, near, None, met.dropout):
            return attend(met.q, met.memory, met.rows, score=met.score, mask=near)
        if met.rows.longest <= 3 * self.side:  # chunks would compare as many
            seen = self.seen(met.mask)
            out = attend(met.q, met.memory, met.rows, score=met.score, mask=seen, dropout=met.dropout)
        else:
            out = in_chunks(met, self.side)
        return out if some is None else self.with_chosen(out, met, some)

    def with_chosen(self, out: Tensor, met: Meeting, some: Chosen) -> Tensor:  # (N, H, D)
        """What the chosen are told, in the place of what their windows told them."""
        q, far = self.far(met.memory)
        mask = None if some.band == (None, None) else of_chosen(some, met.rows)
        said = attend(q[some.places], far, some.found, score=met.score, mask=mask, dropout=met.dropout)
        return out.index_copy(0, some.places, said.to(out.dtype))

    def far(self, memory: Memory) -> tuple[Tensor, Memory]:
        """Queries, keys and values as the chosen make them."""
        x = cast(Read, memory).x
        q, k, v = (line(x).unflatten(-1, (self.heads, -1)) for line in (self.q, self.k, self.v))
        return q, Memory(k, v, memory.rows)

    def seen(self, mask: Mask | None) -> Mask:
        """What those see who are not chosen."""
        near, some = window(self.side), who(mask)
        if some is not None:
            near = near | chosen_keys(some.rows.pad(some.tokens))
        return near if mask is None else Mask(lambda row, q, k: mask.allows(row, q, k) & near.allows(row, q, k))

    def weights(self, met: Meeting) -> Tensor:
        met.check_whole()
        near, some = attention_weights(met.q, met.memory, met.rows, met.score, self.seen(met.mask)), who(met.mask)
        if some is None:
            return near
        q, far = self.far(met.memory)
        return torch.where(self.is_chosen(some), attention_weights(q, far, met.rows, met.score, met.mask), near)

    def mixed(self, weights: Tensor, memory: Memory, rows: Rows, mask: Mask | None) -> Tensor:
        near, some = super().mixed(weights, memory, rows, mask), who(mask)
        if some is None:
            return near
        return torch.where(some.tokens[:, None, None], super().mixed(weights, self.far(memory)[1], rows, mask), near)

    def is_chosen(self, some: Chosen) -> Tensor:  # (B, 1, Q, 1)
        return some.rows.pad(some.tokens)[:, None, :, None]


def of_chosen(some: Chosen, rows: Rows) -> Mask:
    """The mask as the chosen meet it, whose places are counted among themselves, from the end of their row."""
    places = some.found.pad(rows.at[some.places])  # (B, M)
    before = rows.lengths - some.found.lengths

    def allows(row: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return some.allows(row, places[row, (q - before[row]).clamp(0, places.shape[1] - 1)], k)

    return Mask(allows)


def in_chunks(met: Meeting, side: int) -> Tensor:  # (N, H, D)
    """Chunks look at themselves, at both neighbours and at the chosen: there is no square of the length."""
    chunks, some = Chunks.of(met.rows, max(side, SMALLEST)), who(met.mask)
    near, there = chunks.near(1, 1)
    keys, every = Keys.of(met.memory, chunks, some), torch.arange(len(near), device=met.q.device)
    together, parts = max(PAIRS // (3 * chunks.size**2), 1), []
    for asked, some_of in zip(met.q[chunks.token].split(together), every.split(together), strict=True):
        k, v, allowed = keys.seen(some_of, near[some_of], there[some_of], side, met.mask)
        any_key = allowed.any(-1, keepdim=True)  # a query without keys looks at nothing, but softmax needs some
        added = allowed | ~any_key
        q, scale = asked.transpose(1, 2), met.score.scale
        out = F.scaled_dot_product_attention(q, k, v, added, met.dropout, scale=scale)
        parts.append(out.masked_fill(~any_key, 0.0).transpose(1, 2))  # (C, H, S, D) -> (C, S, H, D)
    return torch.cat(parts).flatten(0, 1)[chunks.slot]


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys and values in chunks; and those of the chosen, a row each."""

    chunks: Chunks
    k: Tensor  # (C, S, H, D)
    v: Tensor
    is_chosen: Tensor | None  # (C, S)
    far: tuple[Tensor, Tensor, Tensor, Tensor] | None  # (B, M, H, D) keys and values; places, and whether there is one

    @classmethod
    def of(cls, memory: Memory, chunks: Chunks, some: Chosen | None) -> Keys:
        k, v = memory.k[chunks.token], memory.v[chunks.token]
        if some is None:
            return cls(chunks, k, v, None, None)
        pad, at = some.found.pad, memory.rows.at
        far = pad(memory.k[some.places]), pad(memory.v[some.places]), pad(at[some.places]), some.found.real
        return cls(chunks, k, v, some.tokens[chunks.token], far)

    def seen(
        self, which: Tensor, near: Tensor, there: Tensor, side: int, mask: Mask | None
    ) -> tuple[Tensor, Tensor, Tensor]:  # (C, H, K, D) twice, (C, 1, S, K)
        """What these chunks look at, and whether each slot may."""
        chunks, flat = self.chunks, near.flatten()
        k, v = (x.index_select(0, flat).unflatten(0, near.shape).flatten(1, 2) for x in (self.k, self.v))
        place = chunks.place[near].flatten(1)[:, None]  # (C, 1, K)
        row, asked = chunks.row[which][:, None, None], chunks.place[which][..., None]
        open_ = chunks.real[near].flatten(1) & there.repeat_interleave(chunks.size, 1)
        if self.is_chosen is not None:  # those are met below, wherever they stand
            open_ = open_ & ~self.is_chosen[near].flatten(1)
        allowed = open_[:, None] & ((place - asked).abs() <= side)
        if self.far is not None:
            far_k, far_v, at, real = (part[chunks.row[which]] for part in self.far)
            k, v, place = torch.cat([k, far_k], 1), torch.cat([v, far_v], 1), torch.cat([place, at[:, None]], -1)
            allowed = torch.cat([allowed, real[:, None].expand(-1, chunks.size, -1)], -1)
        if mask is not None and mask.band != (None, None):
            allowed = allowed & mask.allows(row, asked, place)
        return k.transpose(1, 2), v.transpose(1, 2), allowed[:, None]
