"""How a ViT begins that is to learn from few pictures (Trockman and Kolter, 2023): with attention as it is found in
those that have learned from many.  Patches look at what is like them and near them, and take it from what they are.

Letters: H heads, D size of a head, W width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.position import sinusoids
from regard.layers.patches import Patches

LOOK, GIVE = 0.7, 0.4  # the paper's: of chance as of the identity


@torch.no_grad()
def begin_attention(attention: Attention) -> None:
    """Queries times keys nearly the identity, in as many directions as a head has; values times outputs nearly its
    negative."""
    lines: Any = attention
    if not isinstance(lines.q, nn.Linear):  # nothing is projected
        return
    width, heads = lines.q.in_features, lines.heads
    q, k = (line.weight.unflatten(0, (heads, -1)) for line in (lines.q, lines.k))  # (H, D, W)
    one, all_heads = (min(count * q.shape[1], width) for count in (1, heads))  # directions there are
    for head in range(heads):
        q[head, :one], k[head, :one] = halves(near_identity(LOOK, LOOK, width), one)
    lines.v.weight[:all_heads], given = halves(near_identity(GIVE, -GIVE, width), all_heads)
    lines.out.weight[:, :all_heads] = given.T


@torch.no_grad()
def begin_positions(patches: Patches) -> None:
    """Waves along both sides of the picture: places are the more alike the nearer they are."""
    side, width = patches.config.side, patches.config.width
    at = torch.arange(side)
    down, across = sinusoids(at, width // 2), sinusoids(at, width - width // 2)  # (side, about W / 2)
    waves = torch.cat([down.repeat_interleave(side, 0), across.repeat(side, 1)], 1)
    patches.positions[0, patches.config.tokens :] = waves


def near_identity(chance: float, identity: float, width: int) -> Tensor:  # (W, W)
    return chance * width**-0.5 * torch.randn(width, width) + identity * torch.eye(width)


def halves(product: Tensor, rank: int) -> tuple[Tensor, Tensor]:  # (W, W) -> (rank, W) each
    """Two matrices of equal share whose product this is, or nearly, if it takes more than their rank."""
    left, scale, right = torch.svd_lowrank(product, q=rank)
    return (left * scale.sqrt()).T, (right * scale.sqrt()).T
