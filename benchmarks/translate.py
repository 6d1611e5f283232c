"""Translating sentences: regard beside the reference library and ctranslate2, with the same weights.

In float32 on a CPU, in bf16 on a GPU.  Tokens are those written, ends counted; a step is a batch of sentences as the
peers are given them, and regard makes its own.  Without a model, one of opus-mt's shape is made that copies its source.

    python -m benchmarks.translate --data sentences.txt --beams 1 4
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser, Namespace
from itertools import cycle, islice
from pathlib import Path

from benchmarks.plan import Plan
from benchmarks.reporting import named
from benchmarks.translators import CONTENDERS
from benchmarks.writing import common, hold, run


def options() -> Namespace:
    parser = ArgumentParser("regard bench translate", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a folder of a Marian translator; by default one is made")
    parser.add_argument("--data", type=Path, help="sentences, one a line; by default made, as long as Multi30k's")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="1 is greedy")
    parser.add_argument("--batch", type=int, default=32, help="sentences in a batch of the peers")
    parser.add_argument("--steps", type=int, default=4, help="batches that are timed together")
    return common(parser, "translate", CONTENDERS).parse_args()


def bench(asked: Namespace) -> None:
    from benchmarks.copying import captions, lay_out

    stretches = asked.repetitions + 1
    count = asked.batch * asked.steps * stretches
    texts = asked.data.read_text(encoding="utf-8").splitlines() if asked.data else captions(count)
    with tempfile.TemporaryDirectory() as folder:
        examples, model = Path(folder, "sentences.json"), asked.model or str(Path(folder, "model"))
        some = list(islice(cycle(text for text in texts if text.strip()), count))
        some.insert(0, some.pop(some.index(max(some, key=len))))  # what is made ready for long ones is not timed
        examples.write_text(json.dumps(some))
        if not asked.model:
            lay_out(Path(model), texts, "unigram" if asked.data else "word")
        plan = model, str(examples), asked.device, asked.threads, asked.batch, asked.steps, stretches
        names = {beams: f"beam {beams}" if beams > 1 else "greedy" for beams in asked.beams}
        what = f"Translating with {named(asked.model) or 'a Marian of Transformer-base width'}, {asked.batch} at once"
        plans = {name: Plan(*plan, beams=beams) for beams, name in names.items()}
        hold("translate", what, plans, CONTENDERS, asked)


if __name__ == "__main__":
    run(bench, options())
