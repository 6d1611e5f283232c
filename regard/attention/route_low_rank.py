"""Keys and values projected along the length, so that queries look at few places (Linformer, Wang et al., 2020).

Letters: N tokens, B rows, T longest row; H heads, D size of a head; R places that are looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.attend import attend, attention_weights
from regard.attention.memory import Memory
from regard.attention.route import Meeting, Route
from regard.errors import Problem, UsageProblem
from regard.rows import Rows


class LowRank(Route):
    """softmax(q (E k)) (F v).  A row of n tokens is projected by the first n columns of E and F, to no more places than
    it has tokens: at full rank with identities for E and F, this is attention of all with all."""

    def __init__(self, longest: int, rank: int, maps: int, *, alike: bool = False):
        super().__init__()
        self.longest, self.rank = longest, rank
        self.keys = nn.Parameter(torch.empty(maps, rank, longest))  # E: a map for each head, or one for all
        self.values = self.keys if alike else nn.Parameter(torch.empty(maps, rank, longest))  # F
        for table in (self.keys, self.values):
            nn.init.normal_(table, std=longest**-0.5)  # sums of keys are then as large as keys

    def forward(self, met: Meeting) -> Tensor:
        return attend(met.q, self.narrowed(met), met.rows, score=met.score, dropout=met.dropout)

    def weights(self, met: Meeting) -> Tensor:
        """How much each token counts by way of all places.  It may count against: these are no shares."""
        shares = attention_weights(met.q, self.narrowed(met), met.rows, met.score)  # (B, H, Q, R)
        found = shares @ self.values[:, : shares.shape[-1], : met.rows.longest].to(shares.dtype)  # -> (B, H, Q, K)
        return found * met.rows.real[:, None, None]

    def narrowed(self, met: Meeting) -> Memory:
        """The places: sums of keys, and sums of values."""
        met.check_whole()
        memory, rows = met.memory, met.rows
        if met.mask is not None and met.mask.band != (None, None):
            raise UsageProblem("what is projected along the length has no places: a mask has nothing to hide in it")
        if rows.longest > self.longest:
            raise Problem(f"a row of {rows.longest} tokens is longer than the maps, which are for {self.longest}")
        places = fewer(rows, self.rank)
        keys, values = projected(memory.k, self.keys, rows, places), projected(memory.v, self.values, rows, places)
        return Memory(keys, values, places)


def fewer(rows: Rows, most: int) -> Rows:
    """Rows of so many places, or of as many as they have tokens."""
    if rows.is_even:
        return Rows.even(len(rows), min(rows.longest, most), rows.offsets.device)
    return Rows.of(rows.lengths.clamp(max=most), rows.offsets.device)


def projected(x: Tensor, maps: Tensor, rows: Rows, places: Rows) -> Tensor:  # (N, H, D) -> (places, H, D)
    table = maps[:, : places.longest, : rows.longest].to(x.dtype)  # (H or 1, R, T)
    return places.unpad((table @ rows.pad(x).transpose(1, 2)).transpose(1, 2))  # (B, H, T, D) -> (B, R, H, D)
