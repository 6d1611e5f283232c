"""Word vectors read as an encoder reads."""

import numpy as np
import pytest

from regard.errors import UsageProblem
from regard.tasks.static import StaticReader
from regard.text.vectors import Vectors


@pytest.fixture
def vectors():
    return Vectors(["the", "cat", "Paris"], np.array([[1, 2], [3, 4], [5, 6]], np.float32))


def test_a_word_has_its_vector_in_whatever_case_it_is_found(vectors):
    found, empty = StaticReader(vectors).embed_words([["The", "cat", "saw", "PARIS"], []])
    assert found.tolist() == [[1, 2], [3, 4], [0, 0], [5, 6]] and empty.shape == (0, 2)


def test_a_window_puts_the_neighbours_beside_a_word(vectors):
    [found] = StaticReader(vectors, 1).embed_words([["the", "cat", "Paris"]])
    assert found.tolist() == [[0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 0, 0]]
    [alone] = StaticReader(vectors, 2).embed_words([["cat"]])
    assert alone.tolist() == [[0] * 4 + [3, 4] + [0] * 4]


def test_a_text_has_the_mean_of_its_words(vectors):
    found = StaticReader(vectors).embed(["the cat.", "", "Paris"])
    assert found.tolist() == [[2, 3], [0, 0], [5, 6]]
    assert StaticReader(vectors, 1).embed([]).shape == (0, 6)


def test_a_window_is_not_negative(vectors):
    with pytest.raises(UsageProblem, match="window=-1"):
        StaticReader(vectors, -1)
