"""Where queries and keys stand, for positions that enter attention itself: by turning q and k, or by a bias.
Learned and sinusoidal positions do neither: they are added to the embedding.

Letters: B rows, Q and K the longest row of queries and of keys, H heads, D size of a head.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.errors import UsageProblem
from regard.rows import Rows


class Position(nn.Module):
    """Nothing to say: the places are in the embedding already, or do not matter."""

    def __init__(self, heads: int, size: int):
        super().__init__()

    def queries(self, q: Tensor, at: Tensor) -> Tensor:  # (N, H, D), (N,)
        return q

    def keys(self, k: Tensor, at: Tensor) -> Tensor:
        return k

    def bias(self, q: Tensor, rows: Rows, memory_rows: Rows, mask: Mask | None) -> Tensor | None:  # (B or 1, H, Q, K)
        """What is added to the logits; it need not be right where the mask forbids to look."""
        return None


class Rotary(Position):
    """Su 2021: q and k are turned by an angle that grows with their place, so q . k knows only the distance."""

    def __init__(self, heads: int, size: int, base: float = 10000.0):
        super().__init__(heads, size)
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


class Distance(Position):
    """Dai 2019 (Transformer-XL): what a query looks for at a distance, (q + v) . r, beside what it looks for at all,
    (q + u) . k; r is made of the sinusoids of the distance."""

    def __init__(self, heads: int, size: int):
        super().__init__(heads, size)
        self.distance = nn.Linear(heads * size, heads * size, bias=False)
        self.u, self.v = nn.Parameter(torch.zeros(heads, size)), nn.Parameter(torch.zeros(heads, size))
        self.furthest = sys.maxsize  # from which on distances are alike

    def queries(self, q: Tensor, at: Tensor) -> Tensor:
        return q + self.u.to(q.dtype)

    def bias(self, q: Tensor, rows: Rows, memory_rows: Rows, mask: Mask | None) -> Tensor:
        queries, keys = rows.longest, memory_rows.longest
        ahead = 0 if mask is not None and mask.band is not None and mask.band[1] == 0 else queries
        r = self.vectors(torch.arange(keys, -ahead - 1, -1, device=q.device))  # (R, H, D), the furthest first
        sought = (q + self.v.to(q.dtype)) / math.sqrt(q.shape[-1])
        looks = torch.einsum("bqhd,rhd->bhqr", rows.pad(sought), r.to(q.dtype))
        if memory_rows is rows or (rows.is_even and memory_rows.is_even):
            # query i wants the columns from Q - i on: laid end to end, R - 1 numbers apart, so that nothing is copied
            return looks.flatten(-2)[..., queries:].unflatten(-1, (queries, len(r) - 1))[..., :keys]
        places = (keys - distances(rows, memory_rows)).clamp(0, len(r) - 1)
        return looks.gather(-1, places[:, None].expand(-1, looks.shape[1], -1, -1))

    def vectors(self, apart: Tensor) -> Tensor:  # (R,) -> (R, H, D)
        """r of these distances."""
        waves = sinusoids(apart.clamp(-self.furthest, self.furthest), self.distance.in_features)
        return self.distance(waves.to(self.distance.weight.dtype)).unflatten(-1, self.v.shape)


class Buckets(nn.Module):
    """Raffel 2020 (T5): one number a head for each bucket of distances: near ones alone, far ones many together."""

    def __init__(self, heads: int, count: int, furthest: int, *, both_ways: bool):
        super().__init__()
        if count < 4 or furthest <= count:
            raise UsageProblem(f"{count} buckets for distances up to {furthest}: give 4 or more, and further ones")
        self.table = nn.Embedding(count, heads)
        self.furthest, self.both_ways = furthest, both_ways

    def forward(self, rows: Rows, memory_rows: Rows) -> Tensor:  # (B or 1, H, Q, K)
        return self.table(self.bucket(distances(rows, memory_rows))).permute(0, 3, 1, 2)

    def bucket(self, apart: Tensor) -> Tensor:
        """The bucket of a distance, which is negative for keys that lie ahead."""
        count = self.table.num_embeddings
        first = torch.zeros_like(apart)
        if self.both_ways:
            count //= 2
            first, apart = count * (apart < 0), apart.abs()
        apart = apart.clamp(min=0)
        near = count // 2
        share = torch.log(apart.clamp(min=1).float() / near) / math.log(self.furthest / near)
        far = (near + (share * (count - near)).long()).clamp(max=count - 1)
        return first + torch.where(apart < near, apart, far)


def distances(rows: Rows, memory_rows: Rows) -> Tensor:  # (B or 1, Q, K)
    """How far each key lies behind each query; queries are the last places of their memory."""
    device = rows.offsets.device
    even = rows.is_even and memory_rows.is_even
    before = torch.tensor([memory_rows.longest - rows.longest]) if even else memory_rows.lengths - rows.lengths
    query = torch.arange(rows.longest, device=device)[:, None] + before.to(device)[:, None, None]
    return query - torch.arange(memory_rows.longest, device=device)


def sinusoids(at: Tensor, width: int) -> Tensor:  # (N,) -> (N, W)
    """Vaswani 2017: PE(p, 2i) = sin(p / 10000^(2i / W)), PE(p, 2i + 1) = cos of the same."""
    rate = 10000.0 ** (-torch.arange(0, width, 2, device=at.device) / width)
    angle = at[:, None] * rate  # (N, W / 2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


POSITIONS: dict[str, type[Position]] = {"none": Position, "rotary": Rotary, "distance": Distance}
