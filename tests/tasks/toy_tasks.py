"""A small encoder that learns toy tasks in seconds, through the same command as everyone's; and what the reference
library makes of the folder that is saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.commands.finetune import finetune
from regard.data.framed import Framed
from regard.models.bert import bert
from regard.models.heads import new_encoder
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.text.tokenizer import ENCODER, Tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders

LETTERS = "abcdefghijklmnopqrstuvwxyz 0123456789 . , ? ! ' - [ ] ( )"


def wordpieces(words: Iterable[str]) -> Tokenizer:
    """A tokenizer that knows these words as they are, and others by their letters."""
    letters = "".join(LETTERS.split())
    vocab = [*ENCODER, *dict.fromkeys([*letters, *(f"##{letter}" for letter in letters), *words])]
    recipe = Tokenizer.train("wordpiece", [LETTERS], 85, special=ENCODER)
    content = json.loads(recipe.to_json())
    content["model"]["vocab"] = {piece: number for number, piece in enumerate(vocab)}
    return Tokenizer.from_json(json.dumps(content))


def small_reader(role: str, words: Iterable[str] = (), *, longest: int = 48, outputs: int = 2) -> Reader:
    """An encoder with one head, which has learned nothing but sees differences: its numbers are not small."""
    torch.manual_seed(0)
    tokenizer = wordpieces(words)
    published = new_encoder("bert", bert(2, 32, 2, tokenizer.size, longest=longest, dropout=0.0), {role}, outputs)
    for part in published.model.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.2)
    published.model.eval()
    return Reader(published, tokenizer)


def learn(folder: Path, task: str, train: Path, dev: Path, words: Iterable[str], **settings) -> Finetuned:
    small_reader("masked", words).save(folder / "begun")
    told = {"rate": 2e-3, "epochs": 10.0, "batch": 16, "warmup": 0.1} | settings
    return finetune(folder / "begun", task, out=folder / "run", train=train, dev=dev, **told)


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: Iterable[dict]) -> Path:
    return write_lines(path, (json.dumps(row) for row in rows))


def write_questions(path: Path, asked: Sequence[tuple[str, str, str | None]]) -> Path:
    """Questions, contexts and answers, in SQuAD's form; no answer: impossible."""
    paragraphs = []
    for number, (question, context, answer) in enumerate(asked):
        answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
        item = {"id": str(number), "question": question, "answers": answers, "is_impossible": answer is None}
        paragraphs.append({"context": context, "qas": [item]})
    path.write_text(json.dumps({"data": [{"title": "Toy", "paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def reference(folder: Path, kind: str):
    """The reference library's model of a folder, whose every weight must come from there."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    model, told = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    return model.eval()


def ours(reader: Reader, role: str, framed: Framed, number: int) -> torch.Tensor:
    """The scores of a row."""
    [(_, scores, _)] = reader.scores(role, framed.take([number]))
    return scores


def theirs(model, framed: Framed, number: int):
    """What the reference library makes of a row."""
    tokens, types = framed.batch([number])
    with torch.no_grad():
        return model(input_ids=tokens.ids[None], token_type_ids=types[None])
