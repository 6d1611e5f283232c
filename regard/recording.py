"""Recording launches on a GPU as one: a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recording(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """What is launched in here becomes the graph, on a stream for which libraries are ready.  Other threads may be at
    work meanwhile, but this one must free nothing: garbage is left for later."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
            yield
    finally:
        if collects:
            gc.enable()
