"""Bounds on the memory of libraries below: what they keep for each shape of a product, and what they free but keep.

Texts of all lengths make products of thousands of shapes.  For each shape oneDNN keeps a compiled kernel of up to a
megabyte, 1,024 of them for the process; torch keeps as many again for each thread.  Together that is gigabytes.
glibc gives each thread a heap of its own and hardly returns what is free in its middle.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable

KERNEL_CACHES = {  # read from the environment by the libraries at their first product
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",  # kernels of the process
    "LRU_CACHE_CAPACITY": "8",  # torch's, of each thread
}
MAX_HEAPS = 2  # that threads share
M_ARENA_MAX = -8  # glibc's name of that setting in malloc.h
TRIM_SECONDS = 5.0  # between two returns of free memory to the system


def bound_native_memory() -> None:
    """Call it before the first product of the process.  What the environment sets already stays."""
    for name, value in KERNEL_CACHES.items():
        os.environ.setdefault(name, value)
    if "MALLOC_ARENA_MAX" not in os.environ and (mallopt := c_function("mallopt")):
        mallopt(M_ARENA_MAX, MAX_HEAPS)


async def trim_heaps(requests: Callable[[], int]) -> None:
    """Return free memory to the system every few seconds in which requests were answered, until cancelled."""
    malloc_trim, before = c_function("malloc_trim"), requests()
    while malloc_trim is not None:
        await asyncio.sleep(TRIM_SECONDS)
        if requests() != before:
            before = requests()
            await asyncio.to_thread(malloc_trim, 0)  # it takes some milliseconds for each heap


def c_function(name: str) -> ctypes._NamedFuncPointer | None:
    """A function of the C library; None where it has none of that name, as outside glibc."""
    try:
        found: ctypes._NamedFuncPointer = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):
        return None
    return found
