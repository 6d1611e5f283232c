"""Tokens in some order, cut into chunks that look at themselves and beside them: what local and hashed attention have
in common (Reformer, Kitaev et al., 2020).

Letters: N tokens, B rows; R rounds, H heads, D size of a head; C chunks, S slots of a chunk, K slots that it looks at;
I items, each a chunk of a round and a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.mask import Mask
from regard.attention.route import Meeting
from regard.attention.route_chunks import Chunks
from regard.rows import Rows

CLOSED, OWN = -1e9, -1e5  # logits of what may not be seen, and of a token itself: better than nothing
PAIRS = 2**25  # of slots that are compared at once


@dataclass(frozen=True)
class Reach:
    """How far a chunk looks; a row's end is joined to its beginning."""

    size: int = 64  # slots of a chunk
    before: int = 1  # chunks that it looks at beside itself
    after: int = 0
    least: int = 0  # rows of more tokens have slots for a multiple of `multiple`
    multiple: int | None = None

    def chunks(self, rows: Rows) -> Chunks:
        return Chunks.of(rows, self.size, self.least, self.multiple)


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries, keys and values, (N H, D) each, and how they are compared."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    mask: Mask | None
    dropout: float

    @classmethod
    def of(cls, met: Meeting) -> Asked:
        q, k, v = (x.flatten(0, 1) for x in (met.q, met.memory.k, met.memory.v))
        return cls(q, k, v, met.score.scale, met.mask, met.dropout)


@dataclass(frozen=True, eq=False)
class Items:
    """Some chunks of rounds and heads."""

    chunk: Tensor  # (I,)
    head: Tensor  # (I,)
    later: Tensor  # (I,) whether it is of a round after the first
    asking: Tensor  # (I, S) slots
    seen: Tensor  # (I, K)


@dataclass(frozen=True, eq=False)
class Sorted:
    """Slots in the order in which they are cut into chunks."""

    chunks: Chunks
    order: Tensor  # (R, H, C S)
    reach: Reach
    own: bool  # whether a token may see itself; if not, it does where there is nothing else

    @cached_property
    def near(self) -> Tensor:  # (R C, chunks that are looked at)
        return self.chunks.around(self.reach.before, self.reach.after, len(self.order))

    @cached_property
    def fresh(self) -> Tensor:  # (C, K)
        """What a chunk looks at; where it is the only one of its row, the chunks beside it are itself again."""
        own = torch.arange(self.near.shape[1], device=self.near.device) == self.reach.before
        return ((self.chunks.count > 1)[:, None] | own).repeat_interleave(self.chunks.size, 1)

    @cached_property
    def back(self) -> Tensor:  # (R H, C S)
        """Where each slot has come to lie."""
        flat = self.order.flatten(0, 1)
        every = torch.arange(flat.shape[1], device=flat.device).expand_as(flat)
        return torch.empty_like(flat).scatter_(1, flat, every)

    def attend(self, asked: Asked) -> Tensor:  # (N, H, D)
        rounds, heads, slots = self.order.shape
        together = max(PAIRS // (self.reach.size**2 * self.near.shape[1]), 1)
        groups, parts = self.every.split(together), []
        for some in groups:
            if len(groups) > 1 and torch.is_grad_enabled():
                told = checkpoint(self.told, asked, some, use_reentrant=False, preserve_rng_state=asked.dropout > 0)
            else:
                told = self.told(asked, some)
            parts.append(told)
        slot = self.chunks.slot
        where = self.back[:, slot] + torch.arange(0, self.order.numel(), slots, device=slot.device)[:, None]  # (R H, N)
        out, sizes = (torch.cat(part).flatten(0, 1)[where] for part in zip(*parts, strict=True))  # -> (R H, N, D)
        if rounds == 1:
            return out.transpose(0, 1)
        counts = shares(sizes.unflatten(0, (rounds, heads))).to(out.dtype)[..., None]
        told = [one * count for one, count in zip(out.unflatten(0, (rounds, heads)).unbind(), counts, strict=True)]
        return sum(told[1:], told[0]).transpose(0, 1)

    @property
    def every(self) -> Tensor:
        rounds, heads, _ = self.order.shape
        return torch.arange(rounds * heads * len(self.chunks.row), device=self.order.device)

    def items(self, some: Tensor) -> Items:  # (I,) their numbers
        rounds, heads, _ = self.order.shape
        count = len(self.chunks.row)
        pair, chunk = some // count, some % count
        turn, head = pair // heads, pair % heads
        ordered = self.order.view(rounds, heads, count, -1)
        near = self.near[turn * count + chunk]  # (I, chunks that are looked at)
        seen = ordered[near // count, head[:, None], near % count].flatten(1)
        return Items(chunk, head, turn > 0, ordered[turn, head, chunk], seen)

    def tokens(self, slots: Tensor, head: Tensor) -> Tensor:
        """Where in (N H, D) the tokens of slots lie."""
        return self.chunks.token.flatten()[slots] * self.order.shape[1] + head[:, None]

    def told(self, asked: Asked, some: Tensor) -> tuple[Tensor, Tensor]:  # (I, S, D), (I, S)
        """What the slots of some items are told, and how much these found."""
        items = self.items(some)
        weights, sizes = self.looked(asked, items)
        weights = F.dropout(weights, asked.dropout).to(asked.v.dtype)
        return weights @ asked.v[self.tokens(items.seen, items.head)], sizes

    def looked(self, asked: Asked, items: Items) -> tuple[Tensor, Tensor]:  # (I, S, K), (I, S)
        """The weights of what each slot looks at, and the logarithm of what they were divided by."""
        q, k = asked.q[self.tokens(items.asking, items.head)], asked.k[self.tokens(items.seen, items.head)]
        logits = q @ k.mT
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) * asked.scale
        ask, see, fresh = items.asking[..., None], items.seen[:, None], self.fresh[items.chunk][:, None]
        allowed = self.allowed(asked.mask, items, ask, see) & fresh
        logits = logits.masked_fill(~allowed, CLOSED)
        if not self.own:
            logits = logits.masked_fill((ask == see) & fresh, OWN)
        sizes = logits.logsumexp(-1, keepdim=True)
        whole = sizes
        if self.own and asked.mask is not None and asked.mask.band is None:  # who may see nothing is told nothing
            whole = sizes.masked_fill(~allowed.any(-1, keepdim=True), torch.inf)
        again = (self.chunks.count[items.chunk] < 2) & items.later  # what the first round has told already
        return (logits - whole).exp(), sizes.squeeze(-1).masked_fill(again[:, None], CLOSED)

    def allowed(self, mask: Mask | None, items: Items, ask: Tensor, see: Tensor) -> Tensor:  # (I, S or 1, K)
        place, real = self.chunks.place.flatten(), self.chunks.real.flatten()
        if mask is None or mask.band == (None, None):
            return real[see]
        return real[see] & mask.allows(self.chunks.row[items.chunk][:, None, None], place[ask], place[see])

    def weights(self, asked: Asked, rows: Rows) -> Tensor:  # (B, H, Q, K)
        """The same, each where it belongs, all rounds added up by their shares."""
        rounds, heads, slots = self.order.shape
        items = self.items(self.every)
        weights, sizes = self.looked(asked, items)
        by_slot = shares(sizes.view(-1, slots).gather(1, self.back).unflatten(0, (rounds, heads))).flatten(0, 1)
        counts = by_slot.gather(1, self.order.flatten(0, 1)).view(items.asking.shape)
        place, real = self.chunks.place.flatten(), self.chunks.real.flatten()
        weights = weights * counts[..., None] * (real[items.asking][..., None] & real[items.seen][:, None])
        where = self.chunks.row[items.chunk][:, None, None], items.head[:, None, None]
        where = torch.broadcast_tensors(*where, place[items.asking][..., None], place[items.seen][:, None])
        grid = weights.new_zeros(len(rows), heads, rows.longest, rows.longest)
        return grid.index_put(where, weights, accumulate=True)


def shares(sizes: Tensor) -> Tensor:  # (R, H, ...)
    """By how much each round counts; not a softmax, from which the reference library's single precision differs."""
    return (sizes - sizes.logsumexp(0)).exp()
