"""The kernel of `one_query`, in Triton.  Sums and exponentials are in float32, whatever the memory is in; the softmax
is made as places come by (Milakov and Gimelshein 2018), so that each is read once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def look(
    q, new_k, new_v,  # (N, H, D), rows `row` apart
    keys, values,  # (S, T, K, H, D), sentences `sentence` apart
    filled,  # (B,) places, the new one among them
    owner,  # (B, T) rows `table` apart
    bias,  # (N, H, 1, T), apart as the next three say
    out,  # (N, H, D)
    scale, longest, row, sentence, table, bias_row, bias_head, bias_place,
    BEAMS: tl.constexpr, EACH: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr, WIDE: tl.constexpr,
    PLACES: tl.constexpr, NEW: tl.constexpr, OWNED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """One program for a query and a head."""
    query, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    mine = query // EACH  # the row of the memory
    inside = tl.arange(0, WIDE)
    real = inside < SIZE
    part = query * row + head * SIZE + inside
    # cast again: to compiled code a number of Python's, as the scale is, has double precision
    asked = (tl.load(q + part, mask=real, other=0.0).to(tl.float32) * scale).to(tl.float32)
    first = (mine // BEAMS) * sentence + head * SIZE
    bias += query * bias_row + head * bias_head
    count = tl.minimum(tl.load(filled + mine), longest).to(tl.int32)
    if NEW:
        count = tl.maximum(count - 1, 0)  # those before it; a row that nobody writes may be full: it stays inside
        k, v = tl.load(new_k + part, mask=real, other=0.0), tl.load(new_v + part, mask=real, other=0.0)
        cell = first + (count * BEAMS + mine % BEAMS) * (HEADS * SIZE) + inside
        tl.store(keys + cell, k, mask=real)
        tl.store(values + cell, v, mask=real)
        peak, total, answer = tl.sum(asked * k.to(tl.float32), 0), tl.full([], 1.0, tl.float32), v.to(tl.float32)
        if BIASED:
            peak += tl.load(bias + count * bias_place).to(tl.float32)
    else:
        peak, total = tl.full([], -float("inf"), tl.float32), tl.full([], 0.0, tl.float32)
        answer = tl.zeros([WIDE], tl.float32)
    for begin in range(0, count, PLACES):
        place = begin + tl.arange(0, PLACES)
        there = place < count
        cells = place * BEAMS
        if OWNED:
            cells += tl.load(owner + mine * table + place, mask=there, other=0).to(tl.int32)
        offsets = first + cells[:, None] * (HEADS * SIZE) + inside[None, :]
        held = there[:, None] & real[None, :]
        seen = tl.load(keys + offsets, mask=held, other=0.0).to(tl.float32)
        said = tl.load(values + offsets, mask=held, other=0.0).to(tl.float32)
        logits = tl.sum(seen * asked[None, :], 1)
        if BIASED:
            logits += tl.load(bias + place * bias_place, mask=there, other=0.0).to(tl.float32)
        logits = tl.where(there, logits, -float("inf"))
        top = tl.maximum(peak, tl.max(logits, 0))
        fade, shares = tl.exp(peak - top), tl.exp(logits - top)
        peak, total = top, total * fade + tl.sum(shares, 0)
        answer = answer * fade + tl.sum(shares[:, None] * said, 0)
    answer = answer / tl.where(total > 0, total, 1.0)  # a row without places looks at nothing
    tl.store(out + (query * HEADS + head) * SIZE + inside, answer.to(out.dtype.element_ty), mask=real)


@triton.jit
def touch(x):  # (1,)
    """The least that can be launched."""
    tl.store(x, tl.load(x))
