"""Rows dealt to the cores of a CPU, a part to each, instead of all cores working on each product together: then none
waits for another until its part is done, and a core that something else is using for a while holds up nobody else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate, pairwise
from threading import Barrier
from typing import TypeVar

import torch

Part = TypeVar("Part")
Found = TypeVar("Found")


def dealt(rows: Sequence[Part], costs: Sequence[int]) -> list[Sequence[Part]]:
    """A part for each core, with about as much to do; neighbours, which are about equally long, stay together."""
    ends, count = list(accumulate(costs)), min(torch.get_num_threads(), len(rows))
    cuts = [bisect_left(ends, ends[-1] * number / count) for number in range(1, count)]
    parts = [rows[begin:end] for begin, end in pairwise([0, *cuts, len(rows)])]
    return [part for part in parts if part]


def each_alone(work: Callable[[Part], Found], parts: Sequence[Part]) -> list[Found]:
    """What work makes of each part; of several, side by side."""
    if len(parts) == 1:
        return [work(parts[0])]
    return list(cores(torch.get_num_threads()).map(work, parts))


@cache
def cores(count: int) -> ThreadPoolExecutor:
    """Threads that work on one core each."""
    pool, all_there = ThreadPoolExecutor(count, "core", torch.set_num_threads, (1,)), Barrier(count)
    list(pool.map(lambda _: all_there.wait(), range(count)))
    torch.set_num_threads(count)  # for a part of this is the same for all threads: others keep their cores
    return pool
