"""probe --vectors: what can be read off word vectors, alone and with their neighbours'."""

import re

import numpy as np
import pytest

from regard.commands.probe import probe
from regard.errors import UsageProblem
from regard.tasks.static import StaticReader
from regard.text.vectors import Vectors


@pytest.fixture
def vectors(tmp_path):
    words = ["in", "with", "jordan", "she", "was"]
    Vectors(words, np.eye(5, 8, dtype=np.float32)).write(tmp_path / "vectors.txt")
    return tmp_path / "vectors.txt"


@pytest.fixture
def tagged(tmp_path):
    """A name is a place's or a person's: only the word before it tells which."""
    sentences = [f"She O\nwas O\n{word} O\nJordan {tag}\n" for word, tag in (("in", "B-LOC"), ("with", "B-PER"))]
    (tmp_path / "tagged.txt").write_text("\n".join(sentences * 50))
    return tmp_path / "tagged.txt"


def f1(printed: str) -> float:
    return float(re.search(r"entity F1 (\S+)", printed)[1])


def test_neighbours_tell_what_a_word_alone_cannot(vectors, tagged, call):
    alone = call("probe", "tag", tagged, "--vectors", vectors, "--test", tagged)
    around = call("probe", "tag", tagged, "--vectors", vectors, "--test", tagged, "--window", 1)
    assert alone.code == around.code == 0
    assert f1(alone.out) <= 50 and f1(around.out) == 100


def test_texts_are_told_by_their_words(vectors, tmp_path):
    rows = [f"She was {word} Jordan\t{word}" for word in ("in", "with")] * 20
    (tmp_path / "texts.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    [found] = probe(StaticReader(Vectors.read(vectors)), "classify", tmp_path / "texts.tsv")
    assert found.scores[0].value == 100


def test_labels_to_be_tested_on_may_be_unseen_or_have_other_names(vectors, tmp_path, call):
    rows = [f"She was {word} Jordan\t{word}" for word in ("in", "with")] * 20
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    (tmp_path / "test.tsv").write_text(
        "sentence\tlabel\n" + "\n".join([*rows[:2], "She was\tout", "She was\tout"]) + "\n"
    )
    told = call("probe", "classify", tmp_path / "train.tsv", "--vectors", vectors, "--test", tmp_path / "test.tsv")
    assert told.code == 0 and "accuracy 50.00" in told.out and "f1_macro" in told.out
    assert "2 labels did not occur in training and are counted as wrong: 'out' (2)" in told.err
    numbers = [row.replace("\tin", "\t0").replace("\twith", "\t1") for row in rows]
    (tmp_path / "numbers.tsv").write_text("sentence\tlabel\n" + "\n".join(numbers) + "\n")
    named = ["probe", "classify", tmp_path / "train.tsv", "--vectors", vectors, "--test", tmp_path / "numbers.tsv"]
    refused = call(*named)
    assert refused.code == 1 and "--label-map 0=in,1=with" in refused.err
    assert "accuracy 100.00" in call(*named, "--label-map", "0=in,1=with").out


@pytest.mark.parametrize(
    "words", [[], ["--model", "x", "--vectors", "y"], ["--model", "x", "--window", "1"]], ids=["neither", "both", "of"]
)
def test_what_is_probed_must_be_clear(tagged, call, words):
    ended = call("probe", "tag", tagged, *words)
    assert ended.code == 2 and ("--vectors FILE" in ended.err or "for word vectors" in ended.err)


@pytest.mark.parametrize("layers", ["first", "learned mix"])
def test_word_vectors_have_no_layers(vectors, tagged, layers):
    with pytest.raises(UsageProblem, match=f"leave out {layers}"):
        probe(StaticReader(Vectors.read(vectors)), "tag", tagged, layers=[layers])
