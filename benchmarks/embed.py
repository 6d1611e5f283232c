"""Vectors of sentences and reviews mixed: regard beside the reference library and sentence-transformers.

All have the same weights and texts, in float32 on a CPU and in bf16 on a GPU.  The reference library reads batches as
they come, or sorted by length as sentence-transformers does; both pad.  regard makes its own batches; asked for by
--rows, it also computes in lower precision, on a CPU, and how far its vectors move is told.  Without --data, three
phrases of SST-2 are taken for each review of IMDb, from the folder that REGARD_DATA names.

    python -m benchmarks.embed --texts 512
    python -m benchmarks.embed --texts 512 --rows regard regard-bf16 regard-int8
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import lowered
from benchmarks.contest import Entry, contest
from benchmarks.embedders import CONTENDERS
from benchmarks.mixed import PACKAGE, chosen, packaged, written
from benchmarks.plan import Plan
from benchmarks.reporting import compared, named, options, tell
from benchmarks.texts import sentences
from benchmarks.writing import entries, run, say


def asked() -> Namespace:
    parser = ArgumentParser("regard bench embed", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a folder, or a preset such as bert-base; by default all-MiniLM-L6-v2")
    parser.add_argument("--data", type=Path, help="texts, one a line")
    parser.add_argument("--made", action="store_true", help="texts that mean nothing, as long as SST-2's, for a preset")
    parser.add_argument("--texts", type=int, default=512, help="so many of them, in an order of chance")
    parser.add_argument("--batch", type=int, default=32, help="texts in a batch of the peers")
    return options(parser, "embed", CONTENDERS | lowered.CONTENDERS)


def bench(asked: Namespace) -> None:
    texts = sentences(asked.texts) if asked.made else chosen(asked.data, asked.texts)
    with tempfile.TemporaryDirectory() as folder:
        examples = written(texts, Path(folder, "texts.json"))
        model = laid_out(asked.model, texts, Path(folder, "model"), "words" if asked.made else "wordpiece")
        plan = Plan(model, examples, asked.device, asked.threads, asked.batch, 1, asked.repetitions + 1)
        found = contest(list(chosen_rows(asked.rows, plan)), say)
    tokens = next(iter(found.values()))[0].tokens
    rows = compared(found, {"texts": len(texts), "real tokens": tokens})
    called = asked.model or PACKAGE
    what = f"Embedding {len(texts)} texts of {tokens / len(texts):.0f} tokens on average, {named(called)}"
    tell("embed", what, replace(plan, model=called), rows, CONTENDERS, asked)


def chosen_rows(names: list[str] | None, plan: Plan) -> Iterator[Entry]:
    """Those asked for; by default all that compute in the same precision."""
    exact = [name for name in names or CONTENDERS if name in CONTENDERS]
    if exact:
        yield from entries(CONTENDERS, names and exact, plan)
    for name in names or ():
        if name in lowered.CONTENDERS:
            yield name, lowered.CONTENDERS[name], plan


def laid_out(model: str | None, texts: list[str], folder: Path, learn: str) -> str:
    """The folder of the model; of a preset it is made, with a vocabulary of the texts."""
    from regard.models import ENCODERS

    if model is not None and model in ENCODERS:
        from benchmarks.layout import encoder

        encoder(model, texts, learn).save(folder)
        return str(folder)
    return model or str(packaged())


if __name__ == "__main__":
    run(bench, asked())
