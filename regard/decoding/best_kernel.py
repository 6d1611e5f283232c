"""The kernels of `most_probable`, in Triton: chunks of a vocabulary side by side, then what they found together."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def find(
    logits,  # (B, V), rows `row` apart
    never,  # (M,) tokens that are left out
    values, tokens,  # (B, C, MOST)
    sums,  # (B, C) the logarithm of a chunk's sum
    vocab, row, banned, CHUNK: tl.constexpr, MOST: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """One program for a row and a chunk: its greatest logits, greatest first, and what all come to."""
    line, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place = chunk * CHUNK + tl.arange(0, CHUNK)
    every = tl.load(logits + line * row + place, mask=place < vocab, other=-float("inf")).to(tl.float32)
    allowed = every
    for number in range(banned):
        allowed = tl.where(place == tl.load(never + number), -float("inf"), allowed)
    if SHARED:
        every = allowed
    peak = tl.max(every, 0)
    peak = tl.where(peak == -float("inf"), 0.0, peak)  # nothing of this chunk may be written
    here = line * tl.num_programs(1) + chunk
    tl.store(sums + here, peak + tl.log(tl.sum(tl.exp(every - peak), 0)))
    for number in range(MOST):
        value, index = tl.max(allowed, 0, return_indices=True)
        tl.store(values + here * MOST + number, value)
        tl.store(tokens + here * MOST + number, (chunk * CHUNK + index).to(tl.int64))
        allowed = tl.where(place == chunk * CHUNK + index, -float("inf"), allowed)


@triton.jit
def settle(
    values, tokens,  # (B, COUNT) of all chunks
    sums,  # (B, C)
    gains, chosen,  # (B, MOST)
    chunks, COUNT: tl.constexpr, WIDE: tl.constexpr, PARTS: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    """One program for a row: the greatest of what its chunks found, as log-probabilities."""
    line = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    logs = tl.load(sums + line * chunks + part, mask=part < chunks, other=-float("inf"))
    peak = tl.max(logs, 0)
    total = peak + tl.log(tl.sum(tl.exp(logs - peak), 0))
    place = tl.arange(0, WIDE)
    found = tl.load(values + line * COUNT + place, mask=place < COUNT, other=-float("inf"))
    for number in range(MOST):
        value, index = tl.max(found, 0, return_indices=True)
        tl.store(gains + line * MOST + number, value - total)
        tl.store(chosen + line * MOST + number, tl.load(tokens + line * COUNT + index))
        found = tl.where(place == index, -float("inf"), found)
