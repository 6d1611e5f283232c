"""The kernel of `fused`, in Triton: a sum and its norm, read and written once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_and_norm(
    x, said,  # (N, W)
    weight, bias,  # (W,)
    total, normed,  # (N, W)
    epsilon, WIDTH: tl.constexpr, WIDE: tl.constexpr, ADDS: tl.constexpr, SHIFTS: tl.constexpr,
):  # fmt: skip
    """One program for a row.  The sum is rounded before it is normed, as it is where the two are apart."""
    inside = tl.arange(0, WIDE)
    real = inside < WIDTH
    place = tl.program_id(0).to(tl.int64) * WIDTH + inside
    row = tl.load(x + place, mask=real, other=0.0)
    if ADDS:
        row = (row.to(tl.float32) + tl.load(said + place, mask=real, other=0.0).to(tl.float32)).to(row.dtype)
        tl.store(total + place, row, mask=real)
    mean = tl.sum(row.to(tl.float32), 0) / WIDTH
    apart = tl.where(real, row.to(tl.float32) - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, 0) / WIDTH + epsilon)
    found = apart * scale * tl.load(weight + inside, mask=real, other=0.0).to(tl.float32)
    if SHIFTS:
        found += tl.load(bias + inside, mask=real, other=0.0).to(tl.float32)
    tl.store(normed + place, found.to(normed.dtype.element_ty), mask=real)
