"""From frames to letters: the search beside all ways to tell a text, counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from regard.decoding.ctc import PrefixBeam, greedy, prefix_search
from regard.errors import UsageProblem

BLANK, SPACE = 0, 3


def chances(frames: int, letters: int, seed: int, sharp: float = 1.0) -> np.ndarray:
    scores = sharp * np.random.default_rng(seed).standard_normal((frames, letters))
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))


def spelled(path) -> tuple[int, ...]:
    return tuple(letter for letter, _ in itertools.groupby(path) if letter != BLANK)


def every_text(rows: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each text: that of all paths that tell it."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        text = spelled(path)
        found[text] = found.get(text, 0.0) + float(np.exp(rows[np.arange(len(rows)), path].sum()))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_wide_search_finds_the_likeliest_of_all_texts(seed):
    rows = chances(6, 4, seed)
    texts = every_text(rows)
    best = max(texts, key=texts.__getitem__)
    found = prefix_search(rows, BLANK, PrefixBeam(1000, least=-100))
    assert tuple(found.letters) == best
    assert np.isclose(np.exp(found.log_probability), texts[best])


def test_a_search_may_beat_the_likeliest_path():
    rows = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))  # "" has 0.36; "a" has 0.64 by three paths
    assert greedy(rows, BLANK).letters == []
    assert prefix_search(rows, BLANK, PrefixBeam(4)).letters == [1]


def test_greedy_joins_what_is_repeated_and_says_when():
    best = [0, 1, 1, 0, 1, 2, 2, 0]
    rows = np.full((8, 3), -5.0)
    rows[np.arange(8), best] = -0.01
    found = greedy(rows, BLANK)
    assert (found.letters, found.frames) == ([1, 1, 2], [1, 4, 5])
    assert prefix_search(rows, BLANK, PrefixBeam(5)).letters == [1, 1, 2]


def test_frames_of_a_search_are_those_of_its_letters():
    rows = chances(30, 5, 1, sharp=6.0)
    one, other = greedy(rows, BLANK), prefix_search(rows, BLANK, PrefixBeam(50))
    assert len(other.letters) == len(other.frames) and other.frames == sorted(other.frames)
    assert abs(len(one.letters) - len(other.letters)) <= 2


class Likes:
    """A judge who likes one word, and remembers what it was asked."""

    def __init__(self, word):
        self.word, self.asked = word, []

    def gain(self, text, ended):
        self.asked.append((text, ended))
        last = [*text[len(text) - text[::-1].index(SPACE) :]] if SPACE in text else [*text]
        return 0.0 if last == self.word else -6.0


def test_a_judge_of_words_can_turn_the_scale():
    # two letters that sound alike, 1 and 2, then a space, then 1 or 2 again
    rows = np.log(
        np.array(
            [[0.01, 0.55, 0.43, 0.01], [0.97, 0.01, 0.01, 0.01], [0.01, 0.01, 0.01, 0.97], [0.01, 0.53, 0.45, 0.01]]
        )
    )
    assert prefix_search(rows, BLANK, PrefixBeam(20), SPACE).letters == [1, SPACE, 1]
    judge = Likes([2])
    assert prefix_search(rows, BLANK, PrefixBeam(20, weight=1.0, bonus=0.0), SPACE, judge).letters == [2, SPACE, 2]
    assert ((2,), False) in judge.asked and any(ended for _, ended in judge.asked)
    nothing = prefix_search(rows, BLANK, PrefixBeam(20, weight=0.0, bonus=0.0), SPACE, Likes([2]))
    assert nothing.letters == [1, SPACE, 1]


def test_nothing_said_and_no_frames():
    silent = np.log(np.tile([0.98, 0.01, 0.01], (20, 1)))
    assert prefix_search(silent, BLANK, PrefixBeam(5)).letters == greedy(silent, BLANK).letters == []
    assert prefix_search(silent[:0], BLANK, PrefixBeam(5)).letters == []


def test_a_beam_that_cannot_be():
    with pytest.raises(UsageProblem, match="beam 0"):
        PrefixBeam(0)
    with pytest.raises(UsageProblem, match="weight=-1"):
        PrefixBeam(5, weight=-1)
