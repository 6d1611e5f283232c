"""Stretches of a long text: nothing is left out, and each piece has a stretch where it is well surrounded."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.windows import OVERLAP, Windows
from regard.errors import UsageProblem


@given(st.integers(0, 300), st.integers(1, 60), st.integers(0, 30))
def test_all_is_covered_and_neighbours_overlap(length, size, overlap):
    windows = Windows(size, min(overlap, size // 2))
    cuts = windows.over(length)
    assert sorted({piece for cut in cuts for piece in cut}) == [*range(length)]
    assert all(len(cut) == size for cut in cuts[:-1]) and len(cuts[-1]) <= size
    assert all(before.stop - after.start == windows.overlap for before, after in pairwise(cuts))


@given(st.integers(1, 300), st.integers(1, 60), st.integers(0, 30))
def test_a_piece_is_read_where_it_has_most_around_it(length, size, overlap):
    windows = Windows(size, min(overlap, size // 2))
    cuts = windows.over(length)
    for piece, owner in enumerate(windows.owners(np.arange(length), len(cuts)).tolist()):

        def around(cut: range, piece: int = piece) -> int:
            left = piece - cut.start if cut.start else length  # the text's own ends take nothing away
            return min(left, cut.stop - 1 - piece if cut.stop < length else length)

        assert piece in cuts[owner]
        assert around(cuts[owner]) >= max(around(cut) for cut in cuts if piece in cut) - 1


def test_as_the_reference_library_cuts():
    tokenizers = pytest.importorskip("tokenizers")
    words = [f"w{number}" for number in range(100)]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.enable_truncation(30, stride=10)
    encoding = inner.encode(" ".join(words))
    theirs = [part.ids for part in (encoding, *encoding.overflowing)]
    assert [[*cut] for cut in Windows(30, 10).over(100)] == theirs


def test_the_overlap_fits_the_room():
    assert Windows.of(381) == Windows(381, OVERLAP) and Windows.of(20) == Windows(20, 10) and Windows.of(1).step == 1
    with pytest.raises(UsageProblem, match="2 pieces too short"):
        Windows.of(-1)
