"""Where queries and keys stand, for positions that enter attention itself: by turning q and k, or by a bias.
Learned and sinusoidal positions do neither: they are added to the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import UsageProblem
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

    def __init__(self, size: int, base: float = 10000.0):
        super().__init__()
        if size % 2:
            raise UsageProblem(f"rotary positions turn pairs of numbers: a head of size {size} must be even")
        self.size, self.base = size, base

    def queries(self, q: Tensor, at: Tensor) -> Tensor:
        # no buffer: a model cast to half precision would take the angles along, and far places would blur
        rate = self.base ** (-torch.arange(0, self.size, 2, device=q.device) / self.size)
        angle = at[:, None, None] * rate  # (N, 1, D / 2)
        a, b = q.chunk(2, -1)
        turned = torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
        return turned.to(q.dtype)

    def keys(self, k: Tensor, at: Tensor) -> Tensor:
        return self.queries(k, at)
