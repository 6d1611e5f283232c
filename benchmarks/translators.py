"""Those who translate: regard, the reference library and ctranslate2.  Each is given the sentences of a stretch at
once, sorts them by length as it does or as its users do, and is timed from texts to texts: in float32 on a CPU, in bf16
on a GPU, once what they write in float32 has been compared."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import Turns
from benchmarks.plan import Plan
from regard.decoding.scribe import Launch

SHOWN = 32  # sentences whose translations are compared
LONGEST = 64  # tokens of each that are compared

Translate = Callable[[list[str]], list[list[int]]]  # to tokens, which were made texts too


def at_work(plan: Plan, turns: Turns, translate: Translate, halve: Callable[[], object]) -> None:
    texts, size = json.loads(Path(plan.examples).read_text()), plan.batch * plan.steps
    turns.show([shown(row) for row in translate(texts[:SHOWN])])
    if plan.on_gpu:
        halve()
    for number in range(plan.stretches):
        some = texts[number * size : (number + 1) * size]
        turns.begin()
        found = translate(some)
        turns.end(sum(len(row) + 1 for row in found))  # with its end


def shown(row: list[int]) -> list[float]:
    return [float(id) for id in [len(row), *row, *[-1] * LONGEST][: LONGEST + 1]]


def regard(plan: Plan, turns: Turns, launch: Launch = "graphs") -> None:
    """As `regard translate` does it."""
    from regard.cli.memory import keep_freed_memory
    from regard.decoding.beam import Beam
    from regard.decoding.sample import GREEDY
    from regard.decoding.scribe import Scribe
    from regard.tasks.translate import Translator

    keep_freed_memory()
    torch.set_num_threads(plan.threads)
    translator = Translator.load(plan.model, plan.device)
    translator.scribe = Scribe(translator.model, launch=launch)
    how = GREEDY if plan.beams == 1 else Beam(plan.beams)
    at_work(
        plan, turns, lambda texts: [found[0].tokens for found in translator.translate(texts, how)],
        lambda: setattr(translator, "precision", "bf16"),
    )  # fmt: skip


def regard_compiled(plan: Plan, turns: Turns) -> None:
    regard(plan, turns, "compiled")


def transformers(plan: Plan, turns: Turns) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    torch.set_num_threads(plan.threads)
    disable_progress_bar()
    model = AutoModelForSeq2SeqLM.from_pretrained(plan.model).eval().to(plan.device)
    tokenizer, end = AutoTokenizer.from_pretrained(plan.model), model.config.eos_token_id

    @torch.inference_mode()
    def batch(texts: list[str]) -> list[list[int]]:
        read = tokenizer(texts, return_tensors="pt", padding=True).to(plan.device)
        written = model.generate(**read, num_beams=plan.beams, do_sample=False)
        tokenizer.batch_decode(written, skip_special_tokens=True)
        return [cut(row[1:], end) for row in written.tolist()]

    at_work(plan, turns, by_length(batch, plan.batch), model.bfloat16)


def cut(row: list[int], end: int) -> list[int]:
    return row[: row.index(end)] if end in row else row


def by_length(batch: Translate, size: int) -> Translate:
    """Batches of texts that are about as long: the reference library leaves it to its users."""

    def translate(texts: list[str]) -> list[list[int]]:
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), size):
            numbers = order[first : first + size]
            found |= zip(numbers, batch([texts[number] for number in numbers]), strict=True)
        return [found[number] for number in range(len(texts))]

    return translate


def ctranslate2(plan: Plan, turns: Turns) -> None:
    import ctranslate2 as them
    from sentencepiece import SentencePieceProcessor

    folder = Path(plan.model)
    ids = json.loads((folder / "vocab.json").read_text())
    source, target = (SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target"))
    with tempfile.TemporaryDirectory() as converted:
        them.converters.TransformersConverter(plan.model).convert(converted, force=True)
        threads = {"inter_threads": 1, "intra_threads": plan.threads}
        kinds = ("float32", *["bfloat16"] * plan.on_gpu)
        models: list[Any] = [
            them.Translator(converted, device=plan.device, compute_type=kind, **threads) for kind in kinds
        ]

    def translate(texts: list[str]) -> list[list[int]]:
        pieces = [[*row, "</s>"] for row in source.encode(texts, out_type=str)]
        how = {"beam_size": plan.beams, "max_batch_size": plan.batch, "max_decoding_length": 511}
        best = [found.hypotheses[0] for found in models[0].translate_batch(pieces, **how)]
        target.decode(best)
        return [[ids[piece] for piece in row] for row in best]

    at_work(plan, turns, translate, models.reverse)


CONTENDERS = {
    "regard": regard,
    "regard-compiled": regard_compiled,
    "transformers": transformers,
    "ctranslate2": ctranslate2,
}
