"""Those who cut texts into pieces, special tokens around them: regard, the reference library, what is below both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.contest import Turns, Work
from benchmarks.mixed import texts_of
from benchmarks.plan import Plan

SHOWN = 256  # texts whose pieces are compared

Cut = Callable[[list[str]], Iterable[Sequence[int]]]  # the pieces of each text


def ours(plan: Plan, turns: Turns) -> None:
    from regard.text.published import load_tokenizer

    tokenizer = load_tokenizer(Path(plan.model))
    compete(plan, turns, lambda texts: [tokenizer.frame.row(ids)[0] for ids in tokenizer.encode_batch(texts)])


def transformers(plan: Plan, turns: Turns) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(plan.model)
    compete(plan, turns, lambda texts: tokenizer(texts)["input_ids"])


def tokenizers(plan: Plan, turns: Turns) -> None:
    """The library below the others."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(plan.model, "tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    compete(plan, turns, lambda texts: [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)])


def compete(plan: Plan, turns: Turns, cut: Cut) -> None:
    os.environ |= {"RAYON_NUM_THREADS": str(plan.threads), "TOKENIZERS_PARALLELISM": "true"}  # read when first used
    texts = texts_of(plan)
    turns.show([[float(id) for id in ids] for ids in cut(texts[:SHOWN])])
    for _ in range(plan.stretches):
        turns.begin()
        pieces = cut(texts)
        turns.end(sum(map(len, pieces)))


CONTENDERS: dict[str, Work] = {"regard": ours, "transformers": transformers, "tokenizers": tokenizers}
