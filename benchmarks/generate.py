"""Going on with prompts: regard beside the reference library, with the same weights, greedily.

In float32 on a CPU, in bf16 on a GPU.  Tokens are those written; a step is all that is written after the prompts that
are given together.

    python -m benchmarks.generate --model gpt2-small --prompts 1 8
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from benchmarks.plan import Plan
from benchmarks.reporting import named
from benchmarks.texts import sentences
from benchmarks.writers import CONTENDERS
from benchmarks.writing import common, hold, run
from regard.errors import UsageProblem

LEARNED, PIECES = 2000, 2000  # prompts of which a vocabulary is made, and how many pieces of it are learned


def options() -> Namespace:
    parser = ArgumentParser("regard bench generate", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="gpt2-small", help="a preset of GPT-2, or a folder")
    parser.add_argument("--prompts", type=int, nargs="+", default=[1, 8], help="that are gone on with together")
    parser.add_argument("--most", type=int, default=64, help="tokens written after each")
    parser.add_argument("--steps", type=int, default=1, help="how often that is done in a stretch, which is timed")
    return common(parser, "generate", CONTENDERS).parse_args()


def bench(asked: Namespace) -> None:
    stretches = asked.repetitions + 1
    with tempfile.TemporaryDirectory() as folder:
        texts, model = sentences(LEARNED), asked.model
        if not Path(model).is_dir():
            model = str(Path(folder, "model"))
            lay_out(Path(model), asked.model, texts)
        prompts = texts * (max(asked.prompts) * asked.steps * stretches // len(texts) + 1)
        examples = Path(folder, "prompts.json")
        examples.write_text(json.dumps(prompts))
        plans = {
            f"{count} prompts" if count > 1 else "1 prompt": Plan(
                model, str(examples), asked.device, asked.threads, count, asked.steps, stretches, most=asked.most
            )
            for count in asked.prompts
        }
        hold("generate", f"Writing {asked.most} tokens greedily with {named(asked.model)}", plans, CONTENDERS, asked)


def lay_out(folder: Path, preset: str, texts: list[str]) -> None:
    """A model that has learned nothing, and a vocabulary as large as its table."""
    import torch

    from benchmarks.layout import filled
    from regard.models.gpt2 import PRESETS
    from regard.models.heads import new_encoder
    from regard.tasks.reader import Reader
    from regard.text.tokenizer import GPT, Tokenizer

    if preset not in PRESETS:
        raise UsageProblem(f"{preset} is neither a folder nor one of {', '.join(PRESETS)}")
    torch.manual_seed(0)
    config = PRESETS[preset]
    tokenizer = filled(Tokenizer.train("byte-bpe", texts, PIECES, special=GPT), config.embedding.vocab)
    Reader(new_encoder("gpt2", config, {"write"}), tokenizer).save(folder)


if __name__ == "__main__":
    run(bench, options())
