"""What `regard bench train` trains, and on what: models that have learned nothing, and ids drawn by chance, laid out in
files that all contenders read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.copying import LENGTHS
from benchmarks.layout import filled
from regard.commands.show import flops, make_model
from regard.data.corpus import SHARD, Writer, write_facts
from regard.data.pretraining import SHORTEST
from regard.models import ENCODERS, TRANSLATORS, family_of
from regard.models.folder import save_model
from regard.models.heads import new_encoder
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, GPT, Tokenizer

STEPS = 64  # that have rows of their own; then the same come again
SPREAD = 0.8  # of the logarithms of lengths, where rows are not all as long
FRAME = 2  # [CLS] and [SEP]
PIECES = 257  # that a vocabulary is made of before it is filled: bytes and what ends a text
HIDDEN = 0.15  # the share of tokens that are asked for
BEGIN, END, FIRST = 1, 2, 3  # of targets, and the first id that is a word
BACKWARDS = 3  # the way back is twice as long as the way there


@dataclass(frozen=True)
class Load:
    about: str  # in words; numbers are put in
    model: str  # a preset
    objective: str
    longest: int  # tokens of a row
    mean: int  # likewise, on average
    budget: int  # real tokens of a step
    rows: tuple[str, ...]  # who is compared
    base: str  # with whom
    small: str  # a preset for a try

    @property
    def what(self) -> str:
        return self.about.format(**vars(self))

    @property
    def batch(self) -> int:
        """Rows of a step, for those who count rows."""
        return self.budget // self.mean

    def shrunk(self) -> Load:
        """The same on a small scale, to see that all of it runs."""
        longest, mean = 64, 64 * self.mean // self.longest
        return replace(self, model=self.small, longest=longest, mean=mean, budget=4 * mean)


PRETRAINING = ("regard", "regard-compiled", "trainer", "trainer-compiled")
LOADS = {
    "bert": Load(
        "Pretraining {model} on hidden words, rows of {longest} tokens, {budget:,} a step",
        "bert-base", "masked", 512, 512, 32_768, PRETRAINING, "trainer", "bert-tiny",
    ),
    "bert-mixed": Load(
        "Pretraining {model} on hidden words, rows of {mean} tokens ({longest} at most), {budget:,} a step",
        "bert-base", "masked", 512, 128, 32_768, (*PRETRAINING, "trainer-grouped"), "trainer", "bert-tiny",
    ),
    "gpt2": Load(
        "Pretraining {model} on the next token, rows of {longest} tokens, {budget:,} a step",
        "gpt2-small", "next", 1024, 1024, 32_768, PRETRAINING, "trainer", "gpt2-tiny",
    ),
    "lstm": Load(
        "Training {model}, LSTMs with attention, sentences as long as Multi30k's, {budget:,} tokens a step and side",
        "rnn-dot", "translate", 64, 12, 4096, ("regard", "torch", "torch-bare"), "torch", "rnn-dot",
    ),
}  # fmt: skip


def lay_out(load: Load, model: Path, examples: Path) -> float:
    """Write the model and the examples; the FLOPs of training on one token."""
    torch.manual_seed(0)
    if load.objective == "translate":
        return lay_out_translator(load, model, examples)
    reader = new_reader(load)
    reader.save(model)
    lengths = drawn_lengths(load)
    write_corpus(examples, reader.tokenizer, lengths - FRAME * (load.objective == "masked"))
    return flops_of_reader(reader.model, load, lengths)


def new_reader(load: Load) -> Reader:
    """A preset with a vocabulary as large as its table."""
    masked, config = load.objective == "masked", ENCODERS[load.model]
    kind, special = ("words", ENCODER) if masked else ("byte-bpe", GPT)
    tokenizer = filled(Tokenizer.train(kind, ["a word"], PIECES, special=special), config.embedding.vocab)
    return Reader(new_encoder(family_of(load.model), config, {"masked" if masked else "write"}), tokenizer)


def drawn_lengths(load: Load) -> np.ndarray:
    """Of rows, special tokens among them.  Where they are not all as long their logarithms are normal, as those of
    sentences and paragraphs are by and large."""
    count = STEPS * load.batch
    if load.mean == load.longest:
        return np.full(count, load.longest)
    random = np.random.default_rng(0)
    lengths = random.lognormal(np.log(load.mean) - SPREAD**2 / 2, SPREAD, count)
    return np.clip(lengths.round().astype(int), SHORTEST + FRAME, load.longest)


def write_corpus(folder: Path, tokenizer: Tokenizer, lengths: np.ndarray) -> None:
    """Encoded text, as `regard pretrain` reads it: every row is a document of one sentence."""
    random, first = np.random.default_rng(1), max(tokenizer.specials) + 1
    rows = [random.integers(first, tokenizer.size, length).tolist() for length in lengths]
    folder.mkdir()
    with closing(Writer(folder, tokenizer, SHARD)) as writer:
        writer.add(range(len(rows)), rows)
        facts = writer.end("drawn by chance")
    write_facts(folder, facts)


def lay_out_translator(load: Load, folder: Path, examples: Path) -> float:
    model = make_model(TRANSLATORS[load.model])
    save_model(folder, model, {})
    random, count = np.random.default_rng(0), STEPS * load.batch
    lengths = np.interp(random.random(count), list(LENGTHS), list(LENGTHS.values())).round().astype(int)
    sides = {"source": lengths, "target": np.maximum(lengths + random.integers(-2, 3, count), 1)}
    drawn: dict[str, Any] = {f"{side}_lengths": sizes for side, sizes in sides.items()}
    for side, sizes in sides.items():
        drawn[side] = random.integers(FIRST, model.config.embedding.vocab, sizes.sum())
    with open(examples, "wb") as file:
        np.savez(file, **drawn)
    return BACKWARDS * flops(model) / 2  # what it counts is of two tokens, one of the source and one of the target


def flops_of_reader(model: Any, load: Load, lengths: np.ndarray) -> float:
    """Two for each weight that a token is multiplied with, two for each pair of a query and a key, and as many for its
    value: the head's only where something is asked."""
    config = model.encoder.config
    table, masked = config.embedding.vocab * config.embedding.width, load.objective == "masked"
    head = HIDDEN * (table + config.width * config.embedding.width) if masked else table
    context = (lengths**2).sum() / lengths.sum() / (1 if masked else 2)  # tokens that a token looks at
    return BACKWARDS * (flops(model.encoder) + 2 * head + 4 * config.layers * config.width * context)
