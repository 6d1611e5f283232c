"""Attention on a memory in a grid, whose rows differ in what they have filled: a step of writing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import allowed_places
from regard.attention.mask import Mask
from regard.attention.memory import Room
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
    out = F.scaled_dot_product_attention(Q, K, V, attn_mask=added, scale=score.scale)
    if allowed is not None:  # a query without keys looks at nothing
        out = out.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
    return rows.unpad(out.transpose(1, 2))


def allowed_in_step(rows: Rows, memory_rows: Rows, mask: Mask | None) -> Tensor | None:  # (B or 1, 1, Q, K)
    """Where a query may look at a key.  One that stands last in its row has nothing ahead of it."""
    alone = rows.longest == 1 and mask is not None and mask.band == (None, 0)
    return allowed_places(rows, memory_rows, None if alone else mask)
