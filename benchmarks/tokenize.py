"""Cutting texts into pieces: regard beside the reference library's fast tokenizer, and the library below both.

All read the same tokenizer.json and the same texts, and put special tokens around them.

    python -m benchmarks.tokenize --texts 20000
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from benchmarks.contest import contest
from benchmarks.cutters import CONTENDERS
from benchmarks.mixed import PACKAGE, chosen, packaged, written
from benchmarks.plan import Plan
from benchmarks.reporting import compared, named, options, tell
from benchmarks.writing import entries, run, say


def asked() -> Namespace:
    parser = ArgumentParser("regard bench tokenize", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a folder with a tokenizer.json; by default that of all-MiniLM-L6-v2")
    parser.add_argument("--data", type=Path, help="texts, one a line; by default those of `regard bench embed`")
    parser.add_argument("--texts", type=int, default=20_000, help="so many of them, in an order of chance")
    return options(parser, "tokenize", CONTENDERS)


def bench(asked: Namespace) -> None:
    texts = chosen(asked.data, asked.texts)
    with tempfile.TemporaryDirectory() as folder:
        examples = written(texts, Path(folder, "texts.json"))
        model = asked.model or str(packaged())
        plan = Plan(model, examples, "cpu", asked.threads, len(texts), 1, asked.repetitions + 1)
        found = contest(list(entries(CONTENDERS, asked.rows, plan)), say)
    size = sum(len(text.encode()) for text in texts) / 1e6
    rows = compared(found, {"texts": len(texts), "MB": size})
    plan = replace(plan, model=asked.model or PACKAGE)
    tell("tokenize", f"Tokenising {len(texts)} texts, {named(plan.model)}", plan, rows, CONTENDERS, asked)


if __name__ == "__main__":
    run(bench, asked())
