"""What all contenders load, laid out in files: an encoder with a new head, its vocabulary, and the examples."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import torch

from benchmarks.plan import Plan
from benchmarks.texts import sentences
from regard.checkpoints.files import write_file
from regard.commands.encoders import changed
from regard.commands.load import load_reader
from regard.data.labelled import LabelMap
from regard.data.reading import Reading
from regard.models import ENCODERS
from regard.models.heads import new_encoder
from regard.tasks.classify import Classify
from regard.tasks.finetuned import with_task
from regard.tasks.reader import Reader
from regard.tasks.vocabulary_size import UNUSED_ROWS
from regard.text.tokenizer import ENCODER, Tokenizer

PIECES = 8000  # cut the phrases of SST-2 into 13.4 pieces on average, where BERT's own 30,522 pieces give 13.3

Example = tuple[str, str]  # a text and its label


def lay_out(plan: Plan, model: str, data: Path | None) -> None:
    """As many examples as are read in all steps: there is one epoch, whose batches are all full."""
    count = plan.batch * plan.all_steps
    known = given(data) if data else made(count)
    examples = list(islice(cycle(known), count))
    lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in examples)
    write_file(Path(plan.examples), lines.encode())
    torch.manual_seed(plan.seed)
    reader = encoder(model, [text for text, _ in known], learn="wordpiece" if data else "words")
    task = Classify(LabelMap.of([label for _, label in examples]))
    finetuned, _ = with_task(reader, "classify", task, changed(reader.model.encoder.config, ()))
    finetuned.save(plan.model)


def given(data: Path) -> list[Example]:
    read = Classify.read(data, Reading())
    return [(text, label) for (text,), label in zip(read.texts, read.labels, strict=True)]


def made(count: int) -> list[Example]:
    return [(text, str(number % 2)) for number, text in enumerate(sentences(count))]


def encoder(model: str, texts: list[str], learn: str) -> Reader:
    """A folder's, or a preset's with a vocabulary learned from the texts.  The preset's table keeps its rows, for
    the time that the optimizer spends on them."""
    if model not in ENCODERS:
        return load_reader(model)
    tokenizer = Tokenizer.train(learn, texts, PIECES, lowercase=True, special=ENCODER)
    config = ENCODERS[model]
    vocab = max(config.embedding.vocab, tokenizer.size)
    config = replace(config, embedding=replace(config.embedding, vocab=vocab))
    published = new_encoder(model.split("-")[0], config, {"classify"})
    published.theirs[UNUSED_ROWS] = vocab - tokenizer.size
    return Reader(published, tokenizer)


def filled(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """With as many pieces: those that were not learned are there to be counted with."""
    learned = json.loads(tokenizer.to_json())
    pieces = learned["model"]["vocab"]
    pieces |= {f"<{number}>": number for number in range(tokenizer.size, size)}
    return Tokenizer.from_json(json.dumps(learned))
