"""A toy language of good and bad words, pairs in which the better text was chosen, and a model that writes it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch

from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.tasks.reader import Reader
from regard.text.tokenizer import GPT, Tokenizer

GOOD, BAD, REST = ["good", "great", "fine"], ["bad", "awful", "dull"], ["a", "film", "is", "the", "so", "not"]


def worth(text: str) -> int:
    return sum((word in GOOD) - (word in BAD) for word in text.split())


def said(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(GOOD + BAD + REST, k=words))


def prompt(draw: random.Random) -> str:
    return " ".join(draw.choices(REST, k=draw.randint(1, 4)))


def pairs(count: int, seed: int = 0) -> list[dict]:
    draw, found = random.Random(seed), []
    while len(found) < count:
        texts = sorted((said(draw, draw.randint(3, 8)) for _ in range(2)), key=worth)
        if worth(texts[0]) < worth(texts[1]):
            found.append({"prompt": prompt(draw), "chosen": f" {texts[1]}", "rejected": f" {texts[0]}"})
    return found


def write_pairs(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def write_prompts(path: Path, count: int = 40) -> Path:
    draw = random.Random(2)
    path.write_text("".join(f"{prompt(draw)}\n" for _ in range(count)))
    return path


def make_language_model(folder: Path, longest: int = 48) -> Path:
    """A small GPT-2 that has learned nothing: what it writes is any of its few pieces."""
    torch.manual_seed(0)
    text = [" ".join([*GOOD, *BAD, *REST])] * 4 + [f" {word}" for word in GOOD + BAD + REST] * 4
    tokenizer = Tokenizer.train("byte-bpe", text, 293, special=GPT)
    published = new_encoder("gpt2", gpt2(1, 32, 2, tokenizer.size, longest=longest), {"write"})
    Reader(published, tokenizer).save(folder)
    return folder
