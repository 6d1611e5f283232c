"""Attention on a memory in a grid, whose rows differ in what they have filled: a step of writing.

Letters: S sentences, K beams of each, N = S * K queries, T places of a row, H heads, D size of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import allowed_places
from regard.attention.fixed import FixedRoom
from regard.attention.mask import Mask
from regard.attention.memory import Room, Still
from regard.attention.one_query import one_query, one_query_can
from regard.attention.score import Score
from regard.rows import Rows


def attend_in_room(
    q: Tensor,  # (N, H, D)
    room: Room,
    rows: Rows,
    *,
    score: Score,  # a fused one
    mask: Mask | None = None,
    bias: Tensor | None = None,  # (B or 1, H or 1, Q, K), added to the logits
) -> Tensor:  # (N, H, D)
    """As `attend` does, without laying the memory out anew."""
    Q, filled = rows.pad(q).transpose(1, 2), room.rows.longest
    K, V = room.keys[:, :filled].transpose(1, 2), room.values[:, :filled].transpose(1, 2)
    allowed = allowed_in_step(rows, room.rows, mask)
    added = allowed if bias is None else bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
    look = by_products if isinstance(room, Still) else F.scaled_dot_product_attention
    out = look(Q, K, V, attn_mask=added, scale=score.scale)
    if allowed is not None:  # a query without keys looks at nothing
        out = out.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
    return rows.unpad(out.transpose(1, 2))


def by_products(
    Q: Tensor, K: Tensor, V: Tensor, *, attn_mask: Tensor | None, scale: float
) -> Tensor:  # (B, H, Q, D), (B, H, K, D) twice -> (B, H, Q, D)
    """What torch's function gives.  With few queries a row, its kernel for a CPU takes up to three times as long."""
    logits = (Q @ K.mT).mul_(scale)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        logits.masked_fill_(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        logits.add_(attn_mask)
    return logits.softmax(-1) @ V


def allowed_in_step(rows: Rows, memory_rows: Rows, mask: Mask | None) -> Tensor | None:  # (B or 1, 1, Q, K)
    """Where a query may look at a key.  One that stands last in its row has nothing ahead of it."""
    alone = rows.longest == 1 and mask is not None and mask.band == (None, 0)
    return allowed_places(rows, memory_rows, None if alone else mask)


def attend_in_place(
    q: Tensor,  # (N, H, D)
    room: FixedRoom,
    *,
    score: Score,  # a fused one
    bias: Tensor | None = None,  # (N, H, 1, T), added to the logits
) -> Tensor:  # (N, H, D)
    """One query a row, which stands last; without a kernel for that, those of a sentence look at the places of all its
    rows together."""
    if one_query_can(room.keys):
        return one_query(q, room, score.scale, bias)
    room, rows = room.written(), room.rows
    Q = q.unflatten(0, (len(room.keys), -1)).transpose(1, 2)  # (S, H, K, D)
    K, V = (grid[:, : rows.longest].flatten(1, 2).transpose(1, 2) for grid in (room.keys, room.values))
    added = rows.added if bias is None else rows.added + rows.spread(bias)
    out = F.scaled_dot_product_attention(Q, K, V, attn_mask=added, scale=score.scale)
    return out.transpose(1, 2).flatten(0, 1)
