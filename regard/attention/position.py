"""Where queries and keys stand, for positions that enter attention itself: by turning q and k, or by a bias.
Learned and sinusoidal positions do neither: they are added to the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.rows import Rows


class Position(nn.Module):
    """Nothing to say: the places are in the embedding already, or do not matter."""

    def queries(self, q: Tensor, at: Tensor) -> Tensor:  # (N, H, D), (N,)
        return q

    def keys(self, k: Tensor, at: Tensor) -> Tensor:
        return k

    def bias(self, q: Tensor, rows: Rows, memory_rows: Rows) -> Tensor | None:  # (B or 1, H, Q, K)
        return None


class Rotary(Position):
    """Su 2021: q and k are turned by an angle that grows with their place, so q . k knows only the distance."""

    rate: Tensor

    def __init__(self, size: int, base: float = 10000.0):
        super().__init__()
        self.register_buffer("rate", base ** (-torch.arange(0, size, 2) / size), persistent=False)

    def queries(self, q: Tensor, at: Tensor) -> Tensor:
        angle = at[:, None, None] * self.rate  # (N, 1, D / 2)
        a, b = q.chunk(2, -1)
        turned = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
        return turned.to(q.dtype)

    def keys(self, k: Tensor, at: Tensor) -> Tensor:
        return self.queries(k, at)
