"""Training from the first step: regard beside the reference library's Trainer, plain and compiled, and cuDNN's LSTM.

Loads: BERT-base on hidden words, in rows of 512 and in rows as long as texts are; GPT-2 on the next token; a translator
of LSTMs with attention.  All have the same weights, rows and tokens a step; the loss of the same question is compared
before anything is timed.  Each row is a process of its own, one after the other; one that fails is left out.
`of ceiling` is the share of the operations a second that one large product of matrices comes to.

    python -m benchmarks.train --device cuda --loads bert --seconds 10
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from benchmarks.alone import one_by_one
from benchmarks.ceiling import ceiling
from benchmarks.contest import Entry, Stretch, Work
from benchmarks.laps import NOT_TIMED, Lap
from benchmarks.loads import LOADS, Load, lay_out
from benchmarks.plan import Plan
from benchmarks.reporting import Row, record, table
from benchmarks.table import spread
from benchmarks.writing import common, facts, installed, run, say
from regard.errors import UsageProblem

ROWS: dict[str, dict[str, Any]] = {  # who is compared, and where its plan differs
    "regard": {"launch": "plain"},
    "regard-graphs": {"launch": "graphs"},
    "regard-compiled": {"launch": "compiled"},
    "trainer": {"launch": "plain"},
    "trainer-grouped": {"launch": "plain", "grouped": True},
    "trainer-compiled": {"launch": "compiled"},
    "torch": {"launch": "plain"},
    "torch-bare": {"launch": "plain"},  # without attention
}
NEEDED = {"trainer": ("transformers", "accelerate")}  # by whom


def asked() -> Namespace:
    parser = ArgumentParser("regard bench train", description=__doc__.partition("\n")[0])
    loads = f"of {', '.join(LOADS)}; by default all"
    parser.add_argument("--loads", nargs="+", choices=LOADS, metavar="LOAD", help=loads)
    parser.add_argument("--seconds", type=float, default=20.0, help="that a row is timed for, after a warm-up")
    parser.add_argument("--steps", type=int, help="of a stretch, instead of seconds")
    parser.add_argument("--budget", type=int, help="real tokens of a step; by default the load's own")
    parser.add_argument("--limit", type=int, default=180, help="seconds that a row may be silent, as when it compiles")
    parser.add_argument("--small", action="store_true", help="tiny models and short rows, to see that all of it runs")
    return common(parser, "train", ROWS).parse_args()


def bench(asked: Namespace) -> None:
    from regard.checkpoints.files import write_file

    if asked.seconds <= 0:
        raise UsageProblem(f"--seconds {asked.seconds:g}: give more than 0")
    top = ceiling(asked.device, asked.threads)
    numbers: dict[str, Any] = {**facts("train", NEEDED["trainer"], asked), "ceiling": top, "loads": {}}
    for name in asked.loads or LOADS:
        load = LOADS[name].shrunk() if asked.small else LOADS[name]
        load = replace(load, budget=asked.budget or load.budget)
        held = hold(load, top, asked)
        numbers["loads"][name] = {"load": asdict(load), "rows": held}
        write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())
        if asked.results:
            record(load.what, {**numbers, "rows": held}, asked.results)


def hold(load: Load, top: float, asked: Namespace) -> dict[str, Row]:
    """One load: its table is printed."""
    with tempfile.TemporaryDirectory() as folder:
        model, examples = Path(folder, "model"), Path(folder, "examples")
        flops = lay_out(load, model, examples)
        found = one_by_one(entries(load, planned(load, model, examples, asked), asked), asked.limit, say)
    rows = rows_of(found, load.base, flops / top)
    print(load.what, *(table(rows) if rows else ["nothing was measured"]), "", sep="\n", flush=True)
    return rows


def planned(load: Load, model: Path, examples: Path, asked: Namespace) -> Plan:
    return Plan(
        str(model), str(examples), asked.device, asked.threads, load.batch, asked.steps or 0,
        asked.repetitions + NOT_TIMED, objective=load.objective, longest=load.longest, budget=load.budget,
        seconds=asked.seconds / asked.repetitions,
    )  # fmt: skip


def entries(load: Load, plan: Plan, asked: Namespace) -> Iterator[Entry]:
    """The rows asked for that the load has; or its own that can be had here."""
    kinds = {name.partition("-")[0] for name in load.rows}
    chosen = asked.rows or [name for name in load.rows if plan.on_gpu or not name.endswith("compiled")]
    for name in chosen:
        kind = name.partition("-")[0]
        missing = [package for package in NEEDED.get(kind, ()) if not installed(package)]
        if missing or kind not in kinds:
            why = f"pip install {' '.join(missing)}" if missing else "it does not learn this"
            say(f"left out: {name}: {why}")
            continue
        yield name, contender(name, load), replace(plan, **ROWS[name])


def contender(name: str, load: Load) -> Work:
    from benchmarks import learners, recurrences

    if name.startswith("trainer"):
        from benchmarks import trainers

        return trainers.pretrain
    if name.startswith("torch"):
        return recurrences.bare if name.endswith("bare") else recurrences.attending
    return learners.translate if load.objective == "translate" else learners.pretrain


def rows_of(found: Mapping[str, Sequence[Stretch]], base: str, share: float) -> dict[str, Row]:
    """`share` is that of the ceiling which one token a second is."""
    laps = {name: [cast(Lap, one) for one in stretches] for name, stretches in found.items()}
    speeds = {name: [lap.speed for lap in some[NOT_TIMED:]] for name, some in laps.items()}
    rows: dict[str, Row] = {}
    for name, (first, *rest) in laps.items():
        timed = rest[NOT_TIMED - 1 :]
        rows[name] = {
            "real tokens/s": spread(speeds[name]),
            "ms a step": spread([1000 * lap.seconds / lap.steps for lap in timed]),
            "% of ceiling": spread([100 * share * speed for speed in speeds[name]]),
            "first step s": spread([first.seconds]),
            "peak GB": spread([max(lap.peak for lap in rest) / 1e9]),
        }
        if base in speeds:
            rows[name][f"times {base}"] = spread([speed / median(speeds[base]) for speed in speeds[name]])
    return rows


if __name__ == "__main__":
    run(bench, asked())
