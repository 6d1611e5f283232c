"""Scores of word vectors: as gensim computes them on real vectors, and by hand on small ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from regard.data.word_questions import Pair, read_analogies, read_pairs
from regard.errors import Problem
from regard.tasks.vector_scores import VectorScores
from regard.text.vectors import Vectors

DATA = Path(os.environ.get("REGARD_DATA", "none"))
REAL = pytest.mark.skipif(not DATA.is_dir(), reason="REGARD_DATA is not set")
GLOVE, QUESTIONS = DATA / "glove-6b-50d/glove.6B.50d.top20k.txt.xz", DATA / "word-similarity"


@pytest.fixture(scope="module")
def theirs():
    models = pytest.importorskip("gensim.models", reason="gensim is not installed: make oracles")
    return models.KeyedVectors.load_word2vec_format(str(GLOVE), no_header=True)


@pytest.fixture(scope="module")
def scores() -> VectorScores:
    return VectorScores(Vectors.read(GLOVE))


@REAL
@pytest.mark.parametrize("name", ["wordsim353.tsv", "simlex999.txt"])
def test_similarity_is_gensims(scores, theirs, name):
    pairs = read_pairs(QUESTIONS / name)
    score = scores.similarity(pairs)
    _, (spearman, _), unknown = theirs.evaluate_word_pairs(str(QUESTIONS / name))
    assert score.value == pytest.approx(100 * spearman, abs=1e-3)
    known = round(len(pairs) * (1 - unknown / 100))
    assert score.detail == f"{known:,} of {len(pairs):,} pairs" and known > 300


@REAL
def test_analogies_are_gensims(scores, theirs, tmp_path):
    """On some of each section, for time's sake."""
    sections = {name: asked[::23] for name, asked in read_analogies(QUESTIONS / "questions-words.txt").items()}
    assert len(sections) == 14
    some = tmp_path / "some.txt"
    some.write_text("".join(f": {name}\n" + "".join(" ".join(one) + "\n" for one in s) for name, s in sections.items()))
    found = scores.analogies(sections)
    accuracy, parts = theirs.evaluate_word_analogies(str(some), dummy4unknown=False)
    assert found["all"].value == pytest.approx(100 * accuracy) and 30 < found["all"].value < 70
    for part in parts[:-1]:
        right, known = len(part["correct"]), len(part["correct"]) + len(part["incorrect"])
        score = found[part["section"]]
        assert score.detail == f"{known:,} of {len(sections[part['section']]):,} analogies"
        assert score.value == pytest.approx(100 * right / known if known else 0)


def test_case_is_not_regarded_and_the_most_frequent_spelling_counts():
    matrix = np.float32([[1, 0], [0, 1], [1, 1], [-1, 0.5], [1, 1.5]])
    scores = VectorScores(Vectors(["Man", "King", "woman", "MAN", "queen"], matrix))
    found = scores.analogies({"people": [("man", "king", "Woman", "QUEEN"), ("man", "king", "boy", "prince")]})
    assert found["people"].value == 100 and found["people"].detail == "1 of 2 analogies"
    pairs = [Pair("MAN", "woman", 3), Pair("man", "king", 1), Pair("king", "QUEEN", 4), Pair("boy", "man", 9)]
    assert scores.similarity(pairs).value == pytest.approx(100) and scores.similarity(pairs).detail == "3 of 4 pairs"


def test_only_frequent_words_take_part():
    vectors = Vectors(["a", "b", "c"], np.eye(3, dtype=np.float32))
    assert VectorScores(vectors, most=2).signature == "case:ignored|words:2"
    with pytest.raises(Problem, match="0 of 1 pairs have vectors for both words"):
        VectorScores(vectors, most=2).similarity([Pair("a", "c", 1)])
    assert VectorScores(vectors).analogies({"x": [("p", "q", "r", "s")]})["all"].value == 0


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [(read_pairs, "a b 3\n", "line 1: 'a b 3' is not two words and a number"),
     (read_pairs, "# only this\n", "has no pair of words"), (read_analogies, ": x\na b c\n", "line 2: an analogy has"),
     (read_analogies, ": x\n", "has no analogy")],
)  # fmt: skip
def test_faulty_questions_are_told(tmp_path, read, text, told):
    (tmp_path / "questions").write_text(text)
    with pytest.raises(Problem, match=told):
        read(tmp_path / "questions")
