"""How a command's process holds memory."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
LARGE = 2**30  # bytes


def keep_freed_memory() -> None:
    """What is freed is kept for whoever asks next.  By itself glibc asks the system anew for whatever is larger than
    32 MB, which comes page by page: at every step of a beam search on a CPU, whose scores of all words are that large.
    It is for the whole process, so commands ask for it and the library does not."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # other C libraries have none
        mallopt(MMAP_THRESHOLD, LARGE)
        mallopt(TRIM_THRESHOLD, LARGE)
