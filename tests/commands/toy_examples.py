"""A small encoder that knows a few words, and files of examples of every task for it, in every form."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from regard.models.bert import bert
from regard.models.heads import new_encoder
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, Tokenizer

GOOD, BAD, REST = ["good", "great", "fine"], ["bad", "awful", "dull"], ["a", "film", "is", "the", "so", "not"]
SHAPE = ["stack.layers=1", "stack.block.width=16", "stack.block.inner=32", "stack.block.attention.heads=2"]
QUICK = ["--epochs", 1, "--batch", 16, "--rate", "1e-3"]
SHORT = ["--steps", 4, "--budget", 200, "--longest", 32, "--vocab", 270, "--save-every", 2, "--report-every", 1]


def shape(embedding: int = 16) -> list[str]:
    """Options that make a preset small."""
    return [word for one in (*SHAPE, f"embedding.width={embedding}") for word in ("--set", one)]


def make_encoder(folder: Path, longest: int = 40) -> Path:
    """A BERT with its masked head, which has learned nothing."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("wordpiece", [" ".join([*GOOD, *BAD, *REST, ". ? [ ]"])] * 3, 64, special=ENCODER)
    reader = Reader(new_encoder("bert", bert(1, 16, 2, tokenizer.size, longest=longest), {"masked"}), tokenizer)
    reader.save(folder)
    return folder


def said(draw: random.Random, words: Sequence[str]) -> str:
    return " ".join([*draw.choices(REST, k=draw.randint(1, 4)), draw.choice(words), *draw.choices(REST, k=2)])


def reviews(count: int, seed: int = 0) -> list[dict]:
    draw = random.Random(seed)
    kinds = [("pos", GOOD), ("neg", BAD)]
    return [{"sentence": said(draw, kinds[n % 2][1]), "label": kinds[n % 2][0]} for n in range(count)]


def pairs(count: int, seed: int = 0) -> list[dict]:
    draw = random.Random(seed)
    return [{"premise": said(draw, GOOD), "hypothesis": said(draw, BAD), "label": str(n % 3)} for n in range(count)]


def scores(count: int, seed: int = 0) -> list[dict]:
    draw = random.Random(seed)
    return [{"text": said(draw, GOOD), "score": str(n % 5 / 2)} for n in range(count)]


def choices(count: int, seed: int = 0) -> list[dict]:
    draw = random.Random(seed)
    ends = [{f"ending{i}": said(draw, words) for i, words in enumerate((GOOD, BAD, BAD))} for _ in range(count)]
    return [{"startphrase": said(draw, GOOD), **some, "label": str(n % 3)} for n, some in enumerate(ends)]


def write_table(path: Path, rows: Sequence[dict]) -> Path:
    """The form is told by the name: .csv, .tsv, .jsonl or .parquet."""
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, "excel-tab" if path.suffix == ".tsv" else "excel")
            writer.writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    return path


def write_tagged(path: Path, count: int = 8) -> Path:
    sentence = "the O\nfilm B-WORK\nis O\nso O\ngood B-VIEW\n\n"
    path.write_text("-DOCSTART- O\n\n" + sentence * count)
    return path


def write_questions(path: Path, asked: Iterable[tuple[str, str, str | None]]) -> Path:
    """Questions, contexts and answers in SQuAD's form; without an answer: impossible."""
    paragraphs = []
    for number, (question, context, answer) in enumerate(asked):
        answers = [] if answer is None else [{"text": answer, "answer_start": context.find(answer)}]
        item = {"id": f"q{number}", "question": question, "answers": answers, "is_impossible": answer is None}
        paragraphs.append({"context": context, "qas": [item]})
    path.write_text(json.dumps({"data": [{"title": "Toy", "paragraphs": paragraphs}]}))
    return path


QUESTIONS = [("what is good ?", "the film is so good", "the film"), ("what is bad ?", "the film is good", None)] * 4
MADE = {"classify": reviews, "pair": pairs, "regress": scores, "choose": choices}


def make_examples(folder: Path, task: str, suffix: str = ".tsv") -> tuple[Path, Path]:
    """A training file and a dev file of a task."""
    if task == "tag":
        return write_tagged(folder / "train.txt"), write_tagged(folder / "dev.txt", 2)
    if task == "answer":
        return write_questions(folder / "train.json", QUESTIONS), write_questions(folder / "dev.json", QUESTIONS[:2])
    counts = {"train": (24, 0), "dev": (8, 1)}
    return tuple(write_table(folder / f"{name}{suffix}", MADE[task](*how)) for name, how in counts.items())


def finetuning(encoder: object, task: str, train: Path, dev: Path, out: Path, *more: object) -> list[object]:
    """The command that fine-tunes for a moment; later options win."""
    return ["finetune", encoder, task, "--train", train, "--dev", dev, "--out", out, *QUICK, *more]


def stories(count: int = 30, seed: int = 0) -> list[str]:
    """Documents of six lines, each of good words or of bad ones."""
    draw = random.Random(seed)
    return ["\n".join(f"{said(draw, BAD if n % 2 else GOOD)} ." for _ in range(6)) for n in range(count)]


def write_stories(path: Path, count: int = 30, seed: int = 0) -> Path:
    path.write_text("\n\n".join(stories(count, seed)) + "\n")
    return path


def assert_same_weights(one: Path, other: Path) -> None:
    from safetensors.torch import load_file

    ours, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (one, other))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
