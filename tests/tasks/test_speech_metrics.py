"""Error rates, by hand and beside another library."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import Problem
from regard.tasks.speech_metrics import character_error_rate, distance, word_error_rate

WORDS = st.lists(st.sampled_from(["one", "two", "too", "a"]), max_size=8).map(" ".join)


def slow(one, other) -> int:
    """The definition."""
    if not one or not other:
        return len(one) + len(other)
    change = slow(one[1:], other[1:]) + (one[0] != other[0])
    return min(slow(one[1:], other) + 1, slow(one, other[1:]) + 1, change)


@given(st.text("ab ", max_size=5), st.text("ab ", max_size=5))
@settings(max_examples=60, deadline=None)
def test_the_fewest_changes(one, other):
    assert distance(one, other) == slow(one, other) == distance(other, one)


def test_rates_by_hand():
    said, written = ["the cat sat", "yes"], ["the bat sat down", ""]
    assert word_error_rate(written, said).value == pytest.approx(100 * 3 / 4)  # one changed, one put in, one left out
    assert character_error_rate(written, said).value == pytest.approx(100 * (1 + 5 + 3) / 14)
    assert word_error_rate(said, said).value == 0 and "0 errors in 4" in word_error_rate(said, said).detail
    assert word_error_rate(["a b c d"], ["e"]).value == 400  # there may be more errors than words


@given(st.lists(st.tuples(WORDS, WORDS.filter(bool)), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_rates_are_those_of_jiwer(pairs):
    jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")
    written, said = ([pair[side] for pair in pairs] for side in (0, 1))
    assert word_error_rate(written, said).value == pytest.approx(100 * jiwer.wer(said, written))
    assert character_error_rate(written, said).value == pytest.approx(100 * jiwer.cer(said, written))


def test_what_cannot_be_scored():
    with pytest.raises(Problem, match="2 transcripts and 1 references"):
        word_error_rate(["a", "b"], ["a"])
    with pytest.raises(Problem, match="nothing to score"):
        word_error_rate([""], [" "])
