"""Stretches as a table: medians, with the least and the most."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.contest import Stretch


def summary(stretches: Sequence[Stretch], base: Sequence[Stretch], steps: int) -> dict[str, Any]:
    """What a contender did, beside another that had the same batches.  The first stretch is the warm-up."""
    timed = list(zip(stretches[1:], base[1:], strict=True))
    return {
        "tokens_per_second": spread([one.speed for one, _ in timed]),
        "milliseconds_per_step": spread([1000 * one.seconds / steps for one, _ in timed]),
        "ratio": spread([one.speed / other.speed for one, other in timed]),
        "warm_up_seconds": stretches[0].seconds,
        "stretches": [{"seconds": one.seconds, "tokens": one.tokens} for one, _ in timed],
    }


def spread(values: Sequence[float]) -> list[float]:
    return [median(values), min(values), max(values)]


def table(rows: dict[str, dict[str, Any]], base: str) -> list[str]:
    lines = [["", "real tokens/s", "ms a step", f"times {base}", "warm-up"]]
    for name, row in rows.items():
        speed, time, ratio = (row[key] for key in ("tokens_per_second", "milliseconds_per_step", "ratio"))
        warm_up = f"{row['warm_up_seconds']:.1f} s"
        lines.append([name, told(speed, ",.0f"), told(time, ",.1f"), told(ratio, ".2f"), warm_up])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]


def told(values: Sequence[float], form: str) -> str:
    """The median with the least and the most; one number, where it was measured once."""
    middle, least, most = (format(value, form) for value in values)
    return f"{middle} ({least} to {most})" if values[1] < values[2] else middle
