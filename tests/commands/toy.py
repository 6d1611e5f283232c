"""A toy language pair, a model of it that is learned in a second or two, and ways to call regard."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

WORDS = {
    "a": "ein", "man": "mann", "dog": "hund", "house": "haus", "sees": "sieht an", "rides": "fährt",
    "big": "groß", "red": "rot", "and": "und", ".": ".",
}  # fmt: skip
TRANSFORMER = {
    "encoder.layers": 1, "decoder.layers": 1, "embedding.width": 32,
    "encoder.block.width": 32, "encoder.block.inner": 64, "encoder.block.dropout": 0.1,
    "decoder.block.width": 32, "decoder.block.inner": 64, "decoder.block.dropout": 0.1,
}  # fmt: skip
RECURRENT = {"embedding.width": 16, "encoder.width": 16, "decoder.width": 16}
SMALL = [
    "--tokenizer", "words", "--vocab", "60", "--budget", "256", "--rate", "0.01", "--warmup", "2", "--steps", "4",
    "--evaluate-every", "2", "--save-every", "2", "--report-every", "1",
]  # fmt: skip
TRAIN, DEV, TEST = ("train.en", "train.de"), ("dev.en", "dev.de"), ("test.en", "test.de")
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",  # tiny tensors: more threads only wait for each other
}


def make_corpus(folder: Path) -> Path:
    """train, dev and test .en and .de: word for word, but that adjectives follow their nouns."""
    draw = random.Random(1)
    for name, size in (("train", 200), ("dev", 20), ("test", 20)):
        pairs = [sentence(draw) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            write(folder / f"{name}.{language}", [pair[side] for pair in pairs])
    return folder


def sentence(draw: random.Random) -> tuple[str, str]:
    source, target = [], []
    for _ in range(2):
        noun, adjective = draw.choice(["man", "dog", "house"]), draw.choice([["big"], ["red"], []])
        source += ["a", *adjective, noun, draw.choice(["sees", "rides", "and"])]
        target += ["a", noun, *adjective, source[-1]]
    return " ".join([*source, "."]), " ".join(WORDS[word] for word in [*target, "."])


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def training(folder: Path, out: object, *more: object, train=TRAIN, model="transformer-tiny") -> list[str]:
    """The command that trains a small model on files of a folder; later options win."""
    files = ["--train", *(folder / name for name in train), "--dev", *(folder / name for name in DEV)]
    shape = [word for setting in settings(model) for word in ("--set", setting)]
    return [str(word) for word in ["train", "translate", *files, "--model", model, *shape, *SMALL, "--out", out, *more]]


def settings(model: str) -> list[str]:
    shape = RECURRENT if model.startswith("rnn") else TRANSFORMER
    return [f"{path}={value}" for path, value in shape.items()]


def spawn(*arguments: object, **options) -> subprocess.Popen:
    """The installed command, as a shell would start it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(["regard", *map(str, arguments)], env=ENVIRONMENT, **pipes)


@contextmanager
def files_of_at_most(size: int):
    """As on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
