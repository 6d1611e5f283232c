"""The same text gives the same vocabulary, byte for byte: in every process, with any seed of hashes, on any threads."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.text.kinds import KINDS
from regard.text.unigram import learn_unigram

ENVIRONMENTS = [
    {"PYTHONHASHSEED": "0", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true", "OMP_NUM_THREADS": "2"},
    {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "4"},
]
LEARN = """
import sys, warnings
from pathlib import Path
from regard.text.tokenizer import ENCODER, KINDS, Tokenizer
warnings.simplefilter("ignore")
lines = Path(sys.argv[1]).read_text().splitlines()
for kind in KINDS:
    special = {} if kind == "byte-bpe" else {"special": ENCODER}
    Tokenizer.train(kind, lines, 400, **special).save(Path(sys.argv[2]) / f"{kind}.json")
"""


def syllables(draw: random.Random) -> str:
    return "".join(draw.choice("bdfglmnprstvz") + draw.choice("aeiouáé") for _ in range(draw.randint(1, 4)))


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Words that are about equally frequent, so that there are many ties to break."""
    draw = random.Random(0)
    words = [syllables(draw) for _ in range(600)]
    lines = [" ".join(draw.choices(words, k=9)) + draw.choice(".!?") for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "ties.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*words: object, environment: dict[str, str]) -> None:
    known = {name: value for name, value in os.environ.items() if name not in set().union(*ENVIRONMENTS)}
    subprocess.run([sys.executable, *map(str, words)], env=known | environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def learned(text, tmp_path_factory) -> list[Path]:
    """A folder with a vocabulary of every kind, from each of several processes."""
    folders = [tmp_path_factory.mktemp("learned") for _ in ENVIRONMENTS]
    for folder, environment in zip(folders, ENVIRONMENTS, strict=True):
        run("-c", LEARN, text, folder, environment=environment)
    return folders


@pytest.mark.parametrize("kind", KINDS)
def test_every_process_learns_the_same_bytes(learned, kind):
    first, *others = [(folder / f"{kind}.json").read_bytes() for folder in learned]
    assert len(first) > 1000 and all(other == first for other in others)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_the_command_writes_the_same_bytes(text, tmp_path, kind):
    places = [tmp_path / f"{number}.json" for number in range(2)]
    for place, environment in zip(places, ENVIRONMENTS, strict=False):
        command = ["-m", "regard", "tokenizer", kind, text, "--vocab", 300, "--out", place]
        run(*command, environment=environment)
    assert places[0].read_bytes() == places[1].read_bytes()


def test_the_order_of_lines_does_not_matter_to_word_counts(text):
    """A vocabulary is of how often each word occurs; the unigram model's sums are made in the order of sorted words."""
    counts = Counter(text.read_text().split())
    assert learn_unigram(counts, 200) == learn_unigram(dict(reversed(counts.items())), 200)


def test_unigram_probabilities_sum_to_about_one(text):
    """About: pieces beyond the size are dropped last, and the digamma function takes a little from each."""
    scores = np.array([score for _, score in learn_unigram(Counter(text.read_text().split()), 200)])
    assert 0.9 < np.exp(scores).sum() <= 1 and (np.diff(scores) <= 0).all()


def test_unigram_finds_the_words_that_a_text_is_made_of():
    counts = {"lownew": 10, "low": 30, "newlow": 10, "new": 30}
    pieces = [piece for piece, _ in learn_unigram(counts, 8)]
    assert pieces[:2] == ["low", "new"] and set(pieces[2:]) == set("lowne")


def test_more_characters_than_pieces_are_all_kept():
    assert len(learn_unigram({"abcdef": 3, "bcd": 2}, 4)) == 6


def test_a_word_of_many_characters_is_learned_from_in_parts():
    pieces = dict(learn_unigram({"ab" * 5000: 1, "c": 1}, 20))
    assert {"a", "b", "c", "ab" * 8} <= pieces.keys()


def test_what_is_left_out_for_room_leaves_its_characters(monkeypatch):
    monkeypatch.setattr("regard.text.unigram.MAX_CHARACTERS", 6)
    pieces = dict(learn_unigram({"aba": 9, "bab": 8, "xyz": 1, "q": 2}, 20))
    assert set("abxyzq") <= pieces.keys() and "xy" not in pieces


def test_wordpiece_ids_are_special_characters_continuing_characters_merges(learned):
    vocabulary = json.loads((learned[0] / "wordpiece.json").read_text())["model"]["vocab"]
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)[5:]
    single = [piece for piece in pieces if len(piece) == 1]
    continuing = [piece for piece in pieces if piece.startswith("##") and len(piece) == 3]
    assert pieces[: len(single)] == sorted(single)
    assert pieces[len(single) :][: len(continuing)] == sorted(continuing)
    assert list(vocabulary.values()) == list(range(len(vocabulary)))
