"""Fine-tuning on texts as long as SST-2's: regard beside the reference library's Trainer.

Both have the same weights, texts, batches, optimizer (AdamW) and precision (bf16 on a GPU, float32 on a CPU); the
Trainer pads each batch to its longest row, as is its default.  Tokens are counted without padding.  Attention weights
have no dropout, since the ragged kernel has none, but in the row trainer-published, where it is BERT's 0.1.

    python -m benchmarks.finetune --model bert-mini --data train.tsv
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.contest import Entry, Work, contest
from benchmarks.plan import Plan
from benchmarks.table import summary, table
from regard.errors import Problem, UsageProblem

OURS, PEER = "regard", "trainer"
ROWS: dict[str, dict[str, Any]] = {  # what is compared, and where its plan differs
    OURS: {},
    f"{OURS}-plain": {"launch": "plain"},  # kernel by kernel
    f"{OURS}-compiled": {"launch": "compiled"},
    PEER: {},
    f"{PEER}-published": {"attention_dropout": 0.1},
}
NEEDED = "transformers", "accelerate"  # by the peer


def main() -> None:
    try:
        bench(options())
    except Problem as problem:
        print(f"regard: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)


def options() -> Namespace:
    parser = ArgumentParser("regard bench finetune", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="", help="a preset or a folder; by default bert-base, on a CPU bert-small")
    parser.add_argument("--data", type=Path, help="texts with labels; by default sentences of SST-2's lengths are made")
    parser.add_argument("--device", default="", help="cpu, cuda, ...; by default a GPU where there is one")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--batch", type=int, default=32, help="examples a step")
    parser.add_argument("--steps", type=int, default=0, help="timed together; by default 50, on a CPU 8")
    parser.add_argument("--repetitions", type=int, default=5, help="how often that is done, turn by turn")
    rows = f"of {', '.join(ROWS)}; by default all, but on a CPU one launch is like another"
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="ROW", help=rows)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/finetune.json"), help="where the numbers go")
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, to add the medians to")
    return parser.parse_args()


def bench(asked: Namespace) -> None:
    """Hold the contest, print its table and write its numbers."""
    plan, model = planned(asked)

    from benchmarks.layout import lay_out
    from regard.checkpoints.files import write_file

    with tempfile.TemporaryDirectory() as folder:
        plan = replace(plan, model=f"{folder}/model", examples=f"{folder}/examples.jsonl")
        lay_out(plan, model, asked.data)
        found = contest(list(entries(asked.rows, plan)), lambda text: print(text, file=sys.stderr, flush=True))
    base = PEER if PEER in found else next(iter(found))
    rows = {name: {**ROWS[name], **summary(found[name], found[base], plan.steps)} for name in found}
    print(*table(rows, base), sep="\n")
    settings = {**asdict(plan), "model": model, "examples": asked.data.name if asked.data else "made"}
    numbers = {**facts(plan, asked), "settings": settings, "ratios are to": base, "rows": rows}
    write_file(asked.out, (json.dumps(numbers, indent=1) + "\n").encode())
    if asked.results:
        record(numbers, asked.results)


def record(numbers: dict[str, Any], folder: Path) -> None:
    """Add the medians to the chapter on speed."""
    from recipes.results import append

    settings = numbers["settings"]
    what = f"Fine-tuning {settings['model']}, batch {settings['batch']}, texts as long as SST-2's"
    about = {"data": what, "split": numbers["device"], "device": numbers["device"], "commit": numbers["commit"]}
    about |= {"command": numbers["command"], "folder": folder}
    for name, row in numbers["rows"].items():
        for metric, key in (("real tokens/s", "tokens_per_second"), (f"times {numbers['ratios are to']}", "ratio")):
            middle, least, most = row[key]
            append("speed", row=name, metric=metric, value=middle, least=least, most=most, **about)


def planned(asked: Namespace) -> tuple[Plan, str]:
    """What holds on the device, and the model."""
    for name, least in (("threads", 1), ("batch", 1), ("steps", 0), ("repetitions", 1)):
        if getattr(asked, name) < least:
            raise UsageProblem(f"--{name} {getattr(asked, name)}: give {least} or more")

    from regard.training.parallel import here

    device = asked.device or here().type
    model, steps = ("bert-small", 8) if device == "cpu" else ("bert-base", 50)
    plan = Plan("", "", device, asked.threads, asked.batch, asked.steps or steps, stretches=asked.repetitions + 1)
    return plan, asked.model or model


def entries(names: list[str] | None, plan: Plan) -> Iterator[Entry]:
    """The rows asked for, or those that can be had here."""
    missing = " and ".join(name for name in NEEDED if not installed(name))
    for name in names or [name for name, changes in ROWS.items() if plan.on_gpu or "launch" not in changes]:
        if name.startswith(PEER) and missing:
            note = f"{name} needs {missing}: pip install {missing.replace(' and', '')}"
            if names:
                raise Problem(note)
            print(f"left out: {note}", file=sys.stderr)
            continue
        yield name, contender(name), replace(plan, **ROWS[name])


def contender(name: str) -> Work:
    if name.startswith(PEER):
        from benchmarks.trainer import finetune
    else:
        from benchmarks.ours import finetune
    return finetune


def installed(name: str) -> str | None:
    """Its version."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def facts(plan: Plan, asked: Namespace) -> dict[str, Any]:
    from recipes.run_facts import commit, device_name

    told = {name: value for name, value in vars(asked).items() if value and name not in ("out", "results")}
    told = {name: value.name if isinstance(value, Path) else value for name, value in told.items()}
    options = [word for name, value in told.items() for word in (f"--{name}", *(value if name == "rows" else [value]))]
    return {
        "benchmark": "finetune", "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(),
        "command": shlex.join(["regard", "bench", "finetune", *map(str, options)]),
        "device": device_name() if plan.on_gpu else f"CPU, {plan.threads} threads",
        "versions": {name: installed(name) for name in ("torch", *NEEDED)},
    }  # fmt: skip


if __name__ == "__main__":
    main()
