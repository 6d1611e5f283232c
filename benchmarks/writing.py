"""What the contests of those who write have in common: each is held for several loads, one table a load."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.contest import Entry, Stretch, Work, contest
from benchmarks.plan import Plan
from benchmarks.table import summary, table
from regard.errors import Problem, UsageProblem

BASE = "transformers"


def common(parser: ArgumentParser, name: str, contenders: Mapping[str, Work]) -> ArgumentParser:
    """Options of all such benchmarks."""
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--repetitions", type=int, default=5, help="how often a stretch is timed, turn by turn")
    rows = f"of {', '.join(contenders)}; by default those that are installed"
    parser.add_argument("--rows", nargs="+", choices=contenders, metavar="ROW", help=rows)
    parser.add_argument("--out", type=Path, default=Path(f"runs/bench/{name}.json"), help="where the numbers go")
    return parser


def run(bench: Callable[[Namespace], None], asked: Namespace) -> None:
    try:
        for name, value in vars(asked).items():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and number < 1:
                    raise UsageProblem(f"--{name} {number}: give 1 or more")
        bench(asked)
    except Problem as problem:
        print(f"regard: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)


def hold(name: str, plans: Mapping[str, Plan], contenders: Mapping[str, Work], asked: Namespace) -> None:
    """A contest for each load, by what it is called; its table, and all numbers in one file."""
    from regard.checkpoints.files import write_file

    loads = {}
    for load, plan in plans.items():
        found = contest(list(entries(contenders, asked.rows, plan)), say)
        loads[load] = rows_of(found, plan)
        print(f"{load}", *table(loads[load], base_of(found)), "", sep="\n", flush=True)
    settings = {load: asdict(plan) for load, plan in plans.items()}
    numbers = {**facts(name, contenders, asked), "settings": settings, "loads": loads}
    write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def base_of(found: Mapping[str, Any]) -> str:
    return BASE if BASE in found else next(iter(found))


def rows_of(found: Mapping[str, list[Stretch]], plan: Plan) -> dict[str, dict[str, Any]]:
    return {name: summary(stretches, found[base_of(found)], plan.steps) for name, stretches in found.items()}


def entries(contenders: Mapping[str, Work], names: list[str] | None, plan: Plan) -> Iterator[Entry]:
    """The rows asked for, or those that can be had here."""
    for name in names or contenders:
        if name != "regard" and not installed(name):
            if names:
                raise Problem(f"{name} is not installed: pip install {name}")
            say(f"left out: {name}, which is not installed")
            continue
        yield name, contenders[name], plan


def installed(name: str) -> str | None:
    """Its version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def facts(name: str, contenders: Mapping[str, Work], asked: Namespace) -> dict[str, Any]:
    from recipes.run_facts import commit, device_name

    told = {option: value for option, value in vars(asked).items() if value and option != "out"}
    words = [[f"--{option}", *(value if isinstance(value, list) else [value])] for option, value in told.items()]
    return {
        "benchmark": name, "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(),
        "command": shlex.join(["regard", "bench", name, *(str(word) for part in words for word in part)]),
        "device": f"CPU, {asked.threads} threads" if asked.device == "cpu" else device_name(),
        "versions": {peer: installed(peer) for peer in ("torch", *contenders) if peer != "regard"},
    }  # fmt: skip
