"""A profile as text: the kernels that take longest, and how long a device had nothing to do, between which of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiler

KERNELS, GAPS = 25, 12  # that are told
SHORTEST = 5.0  # microseconds of a gap worth telling

Span = tuple[float, float, str]  # of a kernel: when it began and ended, in microseconds, and its name


def profile(work: Callable[[], object], title: str, path: Path, on_gpu: bool) -> None:
    """Add the profile of some work to a file."""
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    with profiler(activities=activities) as found:
        work()
        if on_gpu:
            torch.cuda.synchronize()
    order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    table = found.key_averages().table(sort_by=order, row_limit=KERNELS, max_name_column_width=90)
    spans = sorted(
        (event.time_range.start, event.time_range.end, event.name)
        for event in found.events() or ()
        if event.device_type == DeviceType.CUDA
    )
    with open(path, "a") as file:
        print(f"==== {title} ====", *gaps(spans), table, sep="\n", file=file)


def gaps(spans: Sequence[Span]) -> list[str]:
    """How busy the device was from its first kernel to its last, and where it waited longest."""
    if not spans:
        return []
    waits, end, last = [], spans[0][1], spans[0][2]
    for start, stop, name in spans[1:]:
        if start - end > SHORTEST:
            waits.append((start - end, last, name))
        if stop > end:
            end, last = stop, name
    whole, idle = end - spans[0][0], sum(wait for wait, *_ in waits)
    told = [f"{len(spans)} kernels in {whole / 1e3:.2f} ms, idle for {idle / 1e3:.2f} ms ({idle / whole:.1%})"]
    for wait, before, after in sorted(waits, reverse=True)[:GAPS]:
        told.append(f"  {wait / 1e3:8.3f} ms between {before[:60]} and {after[:60]}")
    return told
