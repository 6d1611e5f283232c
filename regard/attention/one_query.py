"""A step of writing on a GPU in one kernel: what is new goes to its place in a grid, and each row's one query looks at
the places that are filled, and at no others.

Letters: S sentences, K beams of each, N queries, T places of a row, H heads, D size of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention.kernels import kernels_run, power_of_two

if TYPE_CHECKING:
    from regard.attention.fixed import FixedRoom

DTYPES = torch.bfloat16, torch.float16, torch.float32
LARGEST = 256  # size of a head: what a program holds in registers
FEW = 264  # programs, two for each part of a large GPU: fewer take more places at once


def one_query_can(grid: Tensor) -> bool:  # (S, T, K, H, D)
    """Whether there is a kernel for memories such as this."""
    return kernels_run(grid) and grid.dtype in DTYPES and grid.shape[-1] <= LARGEST


def one_query(q: Tensor, room: FixedRoom, scale: float, bias: Tensor | None = None) -> Tensor:  # (N, H, D) -> (N, H, D)
    """Queries look at their row of the room, or as many to a row as there are; a bias is (N or 1, H, 1, T).  What the
    room has not written yet is written."""
    from regard.attention.one_query_kernel import look

    rows, (queries, heads, size) = room.rows, q.shape
    k, v = (room.new.k, room.new.v) if room.new is not None else (q, q)
    q, k, v = alike(q, k, v)
    out = torch.empty(queries, heads, size, dtype=q.dtype, device=q.device)
    places = min(128 if queries * heads < FEW else 64, power_of_two(rows.longest))
    owner = rows.filled if rows.owner is None else rows.owner
    added = rows.filled if bias is None else bias
    steps = (0, 0, 0) if bias is None else (bias.stride(0) * (len(bias) > 1), bias.stride(1), bias.stride(3))
    look[(queries, heads)](
        q, k, v, room.keys, room.values, rows.filled, owner, added, out,
        scale, rows.longest, q.stride(0), room.keys.stride(0), owner.stride(0), *steps,
        BEAMS=rows.beams, EACH=queries // len(rows), HEADS=heads, SIZE=size, WIDE=power_of_two(size), PLACES=places,
        NEW=room.new is not None, OWNED=rows.owner is not None, BIASED=bias is not None, num_warps=max(places // 16, 1),
    )  # fmt: skip
    return out


def alike(*parts: Tensor) -> tuple[Tensor, ...]:  # (N, H, D) each
    """The same, with heads side by side and rows equally far apart, as they come from one product."""
    heads, size = parts[0].shape[1:]
    row = parts[0].stride(0)
    plain = all(x.stride() == (row, size, 1) or (heads == 1 and x.stride(0) == row) for x in parts)
    return parts if plain else tuple(x.contiguous() for x in parts)
