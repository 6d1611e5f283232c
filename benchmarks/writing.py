"""What the contests of those who write have in common: each is held for several loads, one table a load."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.contest import Entry, Stretch, Work, contest
from benchmarks.plan import Plan
from benchmarks.table import spread, summary, table
from regard.errors import Problem, UsageProblem

BASE = "transformers"
ITEMS = {"translate": "sentences", "generate": "prompts"}


def everywhere(parser: ArgumentParser, name: str) -> ArgumentParser:
    """Options of all benchmarks."""
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--out", type=Path, default=Path(f"runs/bench/{name}.json"), help="where the numbers go")
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, to add the medians to")
    return parser


def common(parser: ArgumentParser, name: str, contenders: Collection[str]) -> ArgumentParser:
    """Options of all benchmarks that have contenders."""
    parser.add_argument("--repetitions", type=int, default=5, help="how often a stretch is timed, turn by turn")
    rows = f"of {', '.join(contenders)}; by default those that are installed"
    parser.add_argument("--rows", nargs="+", choices=contenders, metavar="ROW", help=rows)
    return everywhere(parser, name)


def run(bench: Callable[[Namespace], None], asked: Namespace) -> None:
    try:
        for name, value in vars(asked).items():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and not isinstance(number, bool) and number < 1:
                    raise UsageProblem(f"--{name} {number}: give 1 or more")
        bench(asked)
    except Problem as problem:
        print(f"regard: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)


def hold(name: str, what: str, plans: Mapping[str, Plan], contenders: Mapping[str, Work], asked: Namespace) -> None:
    """A contest for each load, by what it is called; its table, and all numbers in one file.  `what` is done is told in
    the results, in words."""
    from regard.checkpoints.files import write_file

    settings = {load: asdict(plan) for load, plan in plans.items()}
    numbers: dict[str, Any] = {**facts(name, contenders, asked), "settings": settings, "loads": {}}
    for load, plan in plans.items():
        found = contest(list(entries(contenders, asked.rows, plan)), say)
        rows, base = rows_of(found, plan), base_of(found)
        print(f"{load}", *table(rows, base), "", sep="\n", flush=True)
        numbers["loads"][load] = rows
        if asked.results:
            record(f"{what}, {load}", numbers, rows, base, asked.results)
    write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())


def record(what: str, numbers: Mapping[str, Any], rows: Mapping[str, Any], base: str, folder: Path) -> None:
    """Add the medians of one load, each with its least and most, to the chapter on speed."""
    from recipes.results import append

    device, commit, command = (numbers[name] for name in ("device", "commit", "command"))
    about = {"data": what, "split": device, "device": device, "commit": commit, "command": command}
    metrics = {"tokens_per_second": "real tokens/s", "items_per_second": f"{ITEMS[numbers['benchmark']]}/s"}
    for name, row in rows.items():
        for key, metric in (metrics | {"ratio": f"times {base}"}).items():
            middle, least, most = row[key]
            append("speed", folder=folder, row=name, metric=metric, value=middle, least=least, most=most, **about)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def base_of(found: Mapping[str, Any]) -> str:
    return BASE if BASE in found else next(iter(found))


def rows_of(found: Mapping[str, list[Stretch]], plan: Plan) -> dict[str, dict[str, Any]]:
    base, items = found[base_of(found)], plan.batch * plan.steps
    return {
        name: {
            **summary(stretches, base, plan.steps),
            "items_per_second": spread([items / one.seconds for one in stretches[1:]]),
        }
        for name, stretches in found.items()
    }


def entries(contenders: Mapping[str, Work], names: list[str] | None, plan: Plan) -> Iterator[Entry]:
    """The rows asked for, or those that can be had here.  On a CPU nothing of writing is compiled."""
    for name in names or [name for name in contenders if plan.on_gpu or not name.endswith("-compiled")]:
        package = name.removesuffix("-sorted").removesuffix("-compiled")
        if package != "regard" and not installed(package):
            if names:
                raise Problem(f"{package} is not installed: pip install {package}")
            say(f"left out: {name}, for {package} is not installed")
            continue
        yield name, contenders[name], plan


def installed(name: str) -> str | None:
    """Its version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def facts(name: str, contenders: Collection[str], asked: Namespace) -> dict[str, Any]:
    from recipes.run_facts import commit, device_name

    told = {option: value for option, value in vars(asked).items() if value and option not in ("out", "results")}
    values = {
        option: value if isinstance(value, list) else [value] * (value is not True) for option, value in told.items()
    }
    words = [[f"--{option}", *some] for option, some in values.items()]
    return {
        "benchmark": name, "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(),
        "command": shlex.join(["regard", "bench", name, *(str(word) for part in words for word in part)]),
        "device": f"CPU, {asked.threads} threads" if asked.device == "cpu" else device_name(),
        "versions": {peer: found for peer in ("torch", *contenders) if (found := installed(peer))},
    }  # fmt: skip
