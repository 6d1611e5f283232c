"""A box of models that have learned next to nothing, made by its own recipe from a few lines of toy text."""

from __future__ import annotations

import gzip
import lzma
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = [
    "the",
    "a",
    "man",
    "dog",
    "house",
    "sees",
    "rides",
    "old",
    "red",
    "river",
    "and",
    "of",
    "in",
    "to",
    "is",
    "was",
]
NAMES = ("EU B-ORG", "Paris B-LOC", "Ada B-PER", "German B-MISC")
DRAW = random.Random(0)


def sentence() -> str:
    return " ".join(DRAW.choices(WORDS, k=DRAW.randint(4, 9))).capitalize() + "."


def captions() -> str:
    return "".join(f"{sentence()}\n" for _ in range(30))


def documents() -> str:
    return "\n".join("".join(f"{' '.join(sentence() for _ in range(4))}\n" for _ in range(3)) for _ in range(20))


def phrases() -> str:
    return "sentence\tlabel\n" + "".join(f"it 's {sentence().lower()} \t{number % 2}\n" for number in range(40))


def tagged() -> str:
    rows = [[f"{word} O" for word in sentence().split()] + [NAMES[number % 4]] for number in range(20)]
    lines = [" NN I-NP ".join(line.split()) for row in rows for line in (*row, "")]
    return "\n".join(lines) + "\n"


KINDS: dict[str, Callable[[], str]] = {
    "multi30k": captions, "pretrain-mini": documents, "sst2": phrases, "conll2003": tagged,
}  # fmt: skip
PACKED = {".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Iterator[Path]:
    """Where the recipe has worked: its runs, and its models in half precision."""
    sys.path.insert(0, str(ROOT))
    from recipes import box, box_data

    folder = tmp_path_factory.mktemp("box")
    for name in (*box_data.CAPTIONS, *box_data.TEXTS, box_data.HELD_OUT, *box_data.PHRASES, *box_data.NAMED):
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PACKED.get(path.suffix, bytes)(KINDS[path.parts[-2]]().encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_DATA", str(folder / "data"))
        for part in (*box.READ, *box.PARTS):
            patch.setattr(sys, "argv", ["box", "--small", "--part", part, "--out", str(folder / "out")])
            box.main()
    yield folder / "out"
    sys.path.remove(str(ROOT))


@pytest.fixture
def small_box(made, monkeypatch) -> Path:
    """The models, where commands look for those in the box."""
    monkeypatch.setenv("REGARD_BOX", str(made / "models"))
    return made / "models"
