"""Word vectors: neighbours and analogies as gensim finds them, on real vectors too; and a start for an embedding."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import Problem, UsageProblem
from regard.text.vectors import Vectors


@pytest.fixture(scope="module")
def glove() -> Path:
    """The 20,000 most frequent words of GloVe 6B, 50 dimensions."""
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        pytest.skip("REGARD_DATA is not set")
    return Path(folder) / "glove-6b-50d/glove.6B.50d.top20k.txt.xz"


@pytest.fixture(scope="module")
def real(glove) -> Vectors:
    return Vectors.read(glove)


@pytest.fixture
def small() -> Vectors:
    return Vectors(["a", "B", "c", "D", "zero"], np.float32([[2, 0], [1, 1], [0, 3], [-1, 0], [0, 0]]))


def test_similarity_is_the_cosine(small):
    assert small.similarity("a", "B") == pytest.approx(0.5**0.5)
    assert small.similarity("a", "D") == -1 and small.similarity("a", "zero") == 0
    assert small["B"].tolist() == [1, 1] and "B" in small and "b" not in small and len(small) == 5


def test_the_nearest_come_first_and_the_word_itself_does_not(small):
    assert [one.word for one in small.near("a", 3)] == ["B", "c", "zero"]
    assert [one.word for one in small.near("a", 99)] == ["B", "c", "zero", "D"]
    assert [one.word for one in small.nearest(["a", "c"], best=1)] == ["B"]


def test_a_word_that_is_not_there_is_told_with_the_one_that_may_be_meant(real, small):
    with pytest.raises(Problem, match="'d' is not among the 5 words; did you mean 'D'"):
        small.near("d")
    with pytest.raises(Problem, match="'goverment' is not among the 20,000 words; did you mean 'government'"):
        real.near("goverment")
    with pytest.raises(Problem, match="'King' is not among the 20,000 words; did you mean 'king'"):
        real.analogy("man", "King", "woman")
    with pytest.raises(Problem, match="try a more frequent one"):
        real["qqqqqqqqqqqq"]
    with pytest.raises(UsageProblem, match="best=0"):
        small.near("a", 0)


def test_real_vectors_know_queens_and_capitals(real):
    assert real.matrix.shape == (20_000, 50)
    assert real.analogy("man", "king", "woman")[0].word == "queen"
    assert real.analogy("france", "paris", "italy")[0].word == "rome"
    assert {"prince", "queen", "emperor"} <= {one.word for one in real.near("king")}


def test_neighbours_and_analogies_are_gensims(real, glove):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed: make oracles")
    theirs = models.KeyedVectors.load_word2vec_format(str(glove), no_header=True)
    assert theirs.index_to_key == real.words and np.array_equal(theirs.vectors, real.matrix)
    for word in ("the", "king", "frog", "1999", "paris"):
        same(real.near(word, 20), theirs.most_similar(word, topn=20))
    for one, other, third in [("man", "king", "woman"), ("france", "paris", "japan"), ("good", "better", "bad")]:
        same(real.analogy(one, other, third), theirs.most_similar(positive=[other, third], negative=[one]))
    assert real.similarity("cup", "cups") == pytest.approx(float(theirs.similarity("cup", "cups")), abs=1e-6)


def same(ours, theirs) -> None:
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    assert [value for _, value in ours] == pytest.approx([value for _, value in theirs], abs=1e-6)


def test_real_vectors_go_through_every_form(real, tmp_path):
    for form in ("text", "binary", "glove"):
        real.write(tmp_path / form, form)
        again = Vectors.read(tmp_path / form)
        assert again.words == real.words and np.array_equal(again.matrix, real.matrix)


def test_an_embedding_starts_from_the_words_that_are_known(small):
    tokens = ["[UNK]", "a", "▁b", "▁C", "d", "##a", "▁a", "e"]
    start = torch.randn(8, 2, dtype=torch.bfloat16)
    kept = start.clone()
    table, found = small.matrix_for(tokens, start)
    assert found == 5 and table.dtype == start.dtype and torch.equal(start, kept)
    expected = {1: "a", 2: "B", 3: "c", 4: "D", 6: "a"}
    for row in range(8):
        wanted = torch.from_numpy(small[expected[row]]).to(start) if row in expected else kept[row]
        assert torch.equal(table[row], wanted), tokens[row]


def test_as_it_is_written_comes_before_other_spellings():
    vectors = Vectors(["apple", "Apple", "APPLE"], np.eye(3, dtype=np.float32))
    table, _ = vectors.matrix_for(["Apple", "APPLE", "aPPLE"], torch.zeros(3, 3))
    assert table.argmax(1).tolist() == [1, 2, 0]


def test_a_table_of_another_size_is_refused(small):
    with pytest.raises(Problem, match="2 tokens with vectors of width 2 do not fit a table of 2 x 3"):
        small.matrix_for(["a", "B"], torch.zeros(2, 3))


def test_words_and_vectors_must_go_together():
    with pytest.raises(UsageProblem, match="2 words need a vector each, and the matrix is 3 x 4"):
        Vectors(["a", "b"], np.zeros((3, 4), np.float32))
    with pytest.raises(UsageProblem, match="'a' is given twice"):
        Vectors(["a", "b", "a"], np.zeros((3, 4), np.float32))
