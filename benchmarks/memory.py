"""Peak memory of training steps: regard beside the reference library's Trainer, at equal batches.

The same fine-tuning as in `regard bench finetune`, each in a process of its own.  `peak MB` is the most that was held
after the warm-up, libraries and all; `training MB` is what of it came after the weights were loaded.

    python -m benchmarks.memory --model bert-small --batch 32
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchmarks.contest import Stretch, contest
from benchmarks.finetune import NEEDED, planned
from benchmarks.peaks import CONTENDERS, Held
from benchmarks.reporting import Row, named, options, tell
from benchmarks.writing import entries, installed, run, say
from regard.errors import Problem

MB = 1e6


def asked() -> Namespace:
    parser = ArgumentParser("regard bench memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a preset or a folder; by default bert-base, on a CPU bert-small")
    parser.add_argument("--data", type=Path, help="texts with labels; by default sentences of SST-2's lengths are made")
    parser.add_argument("--batch", type=int, default=32, help="examples a step")
    parser.add_argument("--steps", type=int, default=4, help="whose peak is taken together")
    return options(parser, "memory", CONTENDERS)


def bench(asked: Namespace) -> None:
    from benchmarks.layout import lay_out

    plan, model = planned(asked)
    with tempfile.TemporaryDirectory() as folder:
        plan = replace(plan, model=f"{folder}/model", examples=f"{folder}/examples.jsonl")
        lay_out(plan, model, asked.data)
        found = contest(list(entries(CONTENDERS, rows_asked(asked.rows), plan)), say)
    what = f"Memory of fine-tuning {named(model)}, batch {plan.batch}, texts as long as SST-2's"
    tell("memory", what, replace(plan, model=model), rows_of(found), CONTENDERS, asked)


def rows_asked(names: list[str] | None) -> list[str] | None:
    """The Trainer needs more than its library."""
    missing = [name for name in NEEDED if not installed(name)]
    if names and missing and "transformers" in names:
        raise Problem(f"its Trainer needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    return ["regard"] if missing else names


def rows_of(found: Mapping[str, Sequence[Stretch]]) -> dict[str, Row]:
    """The most of all stretches but the first, and beside it the least and the most of them."""
    peaks = {name: [cast(Held, one) for one in stretches[1:]] for name, stretches in found.items()}
    rows = {}
    for name, held in peaks.items():
        taken = {"peak MB": [one.peak for one in held], "training MB": [one.peak - one.before for one in held]}
        rows[name] = {what: [max(sizes) / MB, min(sizes) / MB, max(sizes) / MB] for what, sizes in taken.items()}
    return rows


if __name__ == "__main__":
    run(bench, asked())
