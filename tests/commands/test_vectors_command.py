"""`regard vectors`: learned, asked, scored and converted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from regard.commands.vectors import form_of, train_vectors
from regard.errors import UsageProblem
from regard.text.vectors import Vectors

KINDS = ["skip-gram", "cbow", "glove"]
GROUPS = [["red", "green", "blue", "yellow"], ["one", "two", "three", "four"], ["dog", "cat", "horse", "cow"]]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sentences about colours, numbers or animals, with small words between that are everywhere."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("text") / "text.txt"
    lines = []
    for _ in range(1500):
        group = draw.choice(GROUPS)
        lines.append(" ".join(draw.choice([*group, *group, "the", "and"]) for _ in range(12)))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def file(tmp_path):
    words = ["king", "queen", "man", "woman", "apple"]
    matrix = np.float32([[1, 1, 0], [1, -1, 0], [0.1, 1, 0], [0.1, -1, 0], [0, 0, 1]])
    Vectors(words, matrix).write(tmp_path / "some.txt")
    return tmp_path / "some.txt"


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_kind_come_together(call, text, tmp_path, kind):
    out = tmp_path / "new folder" / "vectors.bin"
    done = call("vectors", "train", kind, text, "--out", out, "--size", 16, "--epochs", 8, "--sample", 0)
    assert done.code == 0, done.err
    assert "18,000 words, 14 different ones kept" in done.err and "14 words of 16 numbers" in done.err
    vectors = Vectors.read(out)
    assert out.read_bytes().startswith(b"14 16\n") and vectors.matrix.shape == (14, 16)
    for group in GROUPS:
        for word in group:
            near = [one.word for one in vectors.near(word, 13) if one.word not in ("the", "and")]
            assert set(near[:3]) == set(group) - {word}, (word, near)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_vectors(text, kind):
    settings = {"size": 8, "epochs": 1, "device": "cpu"}
    first, again, other = (train_vectors(kind, [text], **settings, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.matrix, again.matrix) and not np.array_equal(first.matrix, other.matrix)


def test_what_is_near_and_what_is_analogous(call, file):
    near = call("vectors", "near", "king", "--vectors", file, "--best", 2)
    assert near.code == 0 and near.out == "0.7740\tman\n0.0000\tqueen\n"
    both = call("vectors", "near", "king", "apple", "--vectors", file, "--best", 1)
    assert [line.split("\t")[::2] for line in both.out.splitlines()] == [["king", "man"], ["apple", "king"]]
    found = call("vectors", "analogy", "man", "king", "woman", "--vectors", file, "--best", 1)
    assert found.code == 0 and found.out.endswith("\tqueen\n") and found.out.count("\n") == 1


def test_a_word_that_is_missing_is_told(call, file):
    done = call("vectors", "near", "kings", "--vectors", file)
    assert done.code == 1 and done.out == "" and "'kings' is not among the 5 words; did you mean 'king'" in done.err
    gone = call("vectors", "near", "king", "--vectors", "nowhere.txt")
    assert gone.code == 1 and "nowhere.txt cannot be read" in gone.err


def test_vectors_are_converted(call, file, tmp_path):
    for name, form, begin in (
        ("a.bin", None, b"5 3\nking "),
        ("b.txt", "glove", b"king 1"),
        ("c.txt", None, b"5 3\nking 1"),
    ):
        done = call("vectors", "convert", file, tmp_path / name, *(["--form", form] if form else []))
        assert done.code == 0 and (tmp_path / name).read_bytes().startswith(begin), done.err
        assert np.array_equal(Vectors.read(tmp_path / name).matrix, Vectors.read(file).matrix)
    assert form_of("x.bin.gz", None) == "binary" and form_of("x.bin", "glove") == "glove"
    folder = call("vectors", "convert", file, tmp_path)
    assert folder.code == 2 and "is a folder; give the name of a file" in folder.err
    with pytest.raises(UsageProblem, match="the form 'glov'; did you mean 'glove'"):
        form_of("x.txt", "glov")


def test_faulty_vectors_are_told_or_left_out(call, tmp_path):
    (tmp_path / "bad.txt").write_text("a 1 2\nb 3\nc 4 5\n")
    done = call("vectors", "convert", tmp_path / "bad.txt", tmp_path / "out.txt")
    assert done.code == 1 and "bad.txt, line 2: numbers: 1, where 2 should be" in done.err
    assert not (tmp_path / "out.txt").exists()
    done = call("vectors", "convert", tmp_path / "bad.txt", tmp_path / "out.txt", "--skip-bad", 1)
    assert done.code == 0 and "warning: 1 bad vectors were left out" in done.err
    assert Vectors.read(tmp_path / "out.txt").words == ["a", "c"]


def test_vectors_are_scored(call, file, tmp_path):
    (tmp_path / "wordsim353.tsv").write_text("king\tman\t9\nking\tapple\t2\nking\twoman\t1\nking\tpear\t3\n")
    (tmp_path / "questions-words.txt").write_text(": family\nman king woman queen\nman king boy prince\n")
    done = call("vectors", "score", file, "--data", tmp_path)
    lines = [line.split() for line in done.out.splitlines()]
    assert done.code == 0 and lines == [
        ["WordSim-353", "Spearman", "100.00", "(3", "of", "4", "pairs)"],
        ["Google", "analogies:", "family", "accuracy", "100.00", "(1", "of", "2", "analogies)"],
        ["Google", "analogies", "accuracy", "100.00", "(1", "of", "2", "analogies)"],
    ]
    (tmp_path / "empty").mkdir()
    none = call("vectors", "score", file, "--data", tmp_path / "empty")
    assert none.code == 1 and "holds none of wordsim353.tsv, simlex999.txt, questions-words.txt" in none.err


def test_questions_that_are_nowhere_are_told(call, file, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    done = call("vectors", "score", file)
    assert done.code == 2 and "--data" in done.err


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--size", "0"], "size=0"), (["--size", "99999"], "size=99999"), (["--window", "-1"], "window=-1"),
     (["--rate", "nan"], "rate=nan"), (["--sample", "-1"], "sample=-1"), (["--device", "nowhere"], "'nowhere' cannot")],
)  # fmt: skip
def test_settings_that_make_no_sense_are_told(call, text, tmp_path, options, told):
    done = call("vectors", "train", "cbow", text, "--out", tmp_path / "v.txt", *options)
    assert done.code == 2 and told in done.err and "Traceback" not in done.err
    assert not (tmp_path / "v.txt").exists()


def test_text_that_teaches_nothing_is_told(call, tmp_path):
    (tmp_path / "text").write_text("a few words\n")
    done = call("vectors", "train", "cbow", tmp_path / "text", "--out", tmp_path / "v.txt")
    assert done.code == 1 and "none occurs 5 times" in done.err
    with pytest.raises(UsageProblem, match="did you mean 'skip-gram'"):
        train_vectors("skipgram", [tmp_path / "text"])
    with pytest.raises(UsageProblem, match="has no field 'sise'; did you mean 'size'"):
        train_vectors("cbow", [tmp_path / "text"], sise=3)


def test_a_place_that_cannot_be_written_is_told_before_training(call, text, tmp_path):
    (tmp_path / "file").write_text("")
    done = call("vectors", "train", "cbow", text, "--out", tmp_path / "file" / "v.txt")
    assert done.code == 1 and "could not be written" in done.err and "words," not in done.err


def test_an_interrupt_leaves_nothing_behind(text, tmp_path):
    out = tmp_path / "vectors.txt"
    out.write_text("as it was")
    words = ["vectors", "train", "skip-gram", str(text), "--out", str(out), "--epochs", "100000", "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", *words], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for line in process.stderr:
        if "step" in line:  # it is training
            break
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=280)[1]
    assert process.returncode in (1, 130) and "Traceback" not in error
    assert out.read_text() == "as it was" and list(tmp_path.iterdir()) == [out]
