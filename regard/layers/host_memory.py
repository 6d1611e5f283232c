"""How much memory the machine can give, so that a model which will never fit is refused before any of it is allocated.

Linux hands out more than there is, and then kills the process that uses it: that can only be told before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from regard.errors import Problem

MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")


def available_memory() -> int | None:
    """Bytes that this process may still take, swap included, as far as the system tells; None: it does not."""
    limits = [limit for limit in (_unused(), _container(), _address_space()) if limit is not None]
    return min(limits, default=None)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Raise a Problem if so many bytes cannot be had."""
    available = available_memory()
    if available is not None and needed > available:
        raise Problem(
            f"{what} takes {needed / 1e9:,.1f} GB, and {available / 1e9:,.1f} GB of memory are available. {remedy}"
        )


def check_model(make: Callable[[], nn.Module]) -> None:
    """Raise a Problem if the weights of a model that is about to be made cannot be had.  An outline takes none."""
    if torch.get_default_device().type == "meta":
        return
    with torch.device("meta"):
        outline = make()
    weights = sum(tensor.nbytes for tensor in (*outline.parameters(), *outline.buffers()))
    count = sum(parameter.numel() for parameter in outline.parameters())
    check_memory(
        weights, f"A model of {count:,} parameters", "Make it smaller (--set, --vocab), or take a machine with more."
    )


def _unused() -> int | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        pairs = (line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        sizes = {name: int(rest.split()[0]) * 1024 for name, rest in pairs}
        return sizes["MemAvailable"] + sizes.get("SwapFree", 0)
    return None


def _container() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        limit, used = int(CGROUP.read_text()), int(CGROUP.with_name("memory.current").read_text())  # "max": no limit
        pairs = (line.split() for line in CGROUP.with_name("memory.stat").read_text().splitlines())
        cached = next((int(size) for name, size in pairs if name == "file"), 0)  # of files, which the system gives back
        return max(limit - used + cached, 0)
    return None


def _address_space() -> int | None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return max(limit - pages * resource.getpagesize(), 0)
    return None
