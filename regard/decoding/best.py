"""The best of many scores, as writing asks for them at every step."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64  # scores


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:  # (B, V) -> (B, count) each
    """The greatest scores of each row, greatest first, and where they are; of one, where it is first."""
    whole = scores.shape[-1] // BLOCK * BLOCK
    if scores.device.type != "cpu" or whole < 2 * count * BLOCK:
        return greatest(scores, count)
    # a CPU finds a maximum some ten times as fast as its place: so look only into the blocks with the greatest ones
    blocks = greatest(scores[:, :whole].unflatten(-1, (-1, BLOCK)).amax(-1), count)[1]
    places = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK)).flatten(1)
    places = torch.cat([places, torch.arange(whole, scores.shape[-1]).expand(len(scores), -1)], 1)
    found, index = greatest(scores.gather(1, places), count)
    return found, places.gather(1, index)


def greatest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:  # (B, V) -> (B, count) each
    found, index = scores.topk(count) if count > 1 else scores.max(-1, keepdim=True)
    return found, index
