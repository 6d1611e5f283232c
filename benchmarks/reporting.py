"""How a contest of readers is told: a row for each contender, beside each of its peers; a table, JSON, results."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.contest import Stretch, Work
from benchmarks.plan import Plan
from benchmarks.table import spread, told
from benchmarks.writing import common, facts

Row = dict[str, Any]  # what was measured of a contender: by its name, the median, the least and the most


def options(parser: ArgumentParser, name: str, contenders: Mapping[str, Work]) -> Namespace:
    return common(parser, name, contenders).parse_args()


def compared(found: Mapping[str, Sequence[Stretch]], amounts: Mapping[str, float]) -> dict[str, Row]:
    """How much of each amount a contender did in a second; and how fast it was beside the others, turn by turn."""
    rows = {}
    for name, (_, *timed) in found.items():
        speeds = {f"{what}/s": spread([much / one.seconds for one in timed]) for what, much in amounts.items()}
        rows[name] = speeds | {f"times {peer}": beside(timed, theirs) for peer, (_, *theirs) in found.items()}
    return rows


def beside(timed: Sequence[Stretch], theirs: Sequence[Stretch]) -> list[float]:
    return spread([other.seconds / one.seconds for one, other in zip(timed, theirs, strict=True)])


def table(rows: Mapping[str, Row]) -> list[str]:
    heading = ["", *next(iter(rows.values()))]
    lines = [[name, *(told(row[what], form(what)) for what in heading[1:])] for name, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(heading, *lines, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]) for first, *rest in [heading, *lines]
    ]


def form(what: str) -> str:
    return ",.2f" if what.startswith("times") else ",.1f"


def tell(
    name: str, what: str, plan: Plan, rows: dict[str, Row], contenders: Mapping[str, Work], asked: Namespace
) -> None:
    """Print the table and write the numbers; `what` is what was measured, in words."""
    from regard.checkpoints.files import write_file

    print(*table(rows), sep="\n", flush=True)
    asked_for = {option: named(value) for option, value in vars(asked).items() if option != "results"}
    settings = asdict(plan) | {"model": named(plan.model), "examples": named(asked.data) or "its own"}
    numbers = {**facts(name, contenders, Namespace(**asked_for)), "settings": settings, "rows": rows}
    write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())
    if asked.results:
        record(what, numbers, asked.results)


def named(value: Any) -> Any:
    """A file or folder by its name: where it lies does not matter."""
    return Path(value).name if isinstance(value, Path) or (isinstance(value, str) and "/" in value) else value


def worth(what: str, rows: Mapping[str, Row], module: str, folder: Path) -> None:
    """Add how long something takes with all that makes it fast, and without one or the other."""
    from recipes.run_facts import commit, device_name

    about = {"device": device_name(), "commit": commit(), "command": f"python -m {module}"}
    record(f"What each part is worth: {what}", {**about, "rows": rows}, folder)


def record(what: str, numbers: Mapping[str, Any], folder: Path) -> None:
    """Add the medians, each with its least and most, to the chapter on speed."""
    from recipes.results import append

    device, commit, command = (numbers[name] for name in ("device", "commit", "command"))
    about = {"data": what, "split": device, "device": device, "commit": commit, "command": command}
    for name, row in numbers["rows"].items():
        for metric, (middle, least, most) in row.items():
            append("speed", folder=folder, row=name, metric=metric, value=middle, least=least, most=most, **about)
