"""From what frames tell to letters: the likeliest of each frame, or the likeliest text, by a search over the beginnings
of texts (Graves et al. 2006; Hannun et al. 2014).

Letters: T frames, V letters that can be told, one of which is the blank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from regard.errors import UsageProblem

Text = tuple[int, ...]
NEVER = -math.inf


class Judge(Protocol):
    """What knows how probable texts are: a language model."""

    def gain(self, text: Text, ended: bool) -> float:
        """What the last word of a text adds to its log-probability; the text may have ended with it."""


@dataclass(frozen=True)
class PrefixBeam:
    """How wide to search, and what a language model says: its log-probability counts `weight` times, and each word
    `bonus`, since the more words a text has the less probable it is."""

    size: int = 1  # 1: the likeliest letter of each frame, without a search
    weight: float = 0.5
    bonus: float = 1.0
    least: float = -12.0  # letters whose log-probability in a frame is below are not tried

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 10_000:
            raise UsageProblem(f"beam {self.size}: expected from 1 to 10,000")
        if not (0 <= self.weight < 100 and -100 < self.bonus < 100):
            raise UsageProblem(
                f"weight={self.weight}, bonus={self.bonus}: give a weight from 0 to 100, a bonus up to 100"
            )


@dataclass(frozen=True)
class Spelled:
    """Letters, the frame at which each was told first, and the log-probability of all ways to tell them."""

    letters: list[int]
    frames: list[int]
    log_probability: float


def greedy(chances: np.ndarray, blank: int) -> Spelled:  # (T, V) log-probabilities
    """The likeliest letter of each frame; what is repeated without a blank between is one letter."""
    best = chances.argmax(1)
    new = np.flatnonzero((best != blank) & (best != np.concatenate([[blank], best[:-1]])))
    return Spelled(best[new].tolist(), new.tolist(), float(chances.max(1).sum()))


@dataclass(frozen=True)
class _Beam:
    """A beginning: how likely it is that its last frame was a blank, or a letter; what the language model says of it;
    and the frames of its letters."""

    blank: float = NEVER
    letter: float = NEVER
    said: float = 0.0
    frames: tuple[int, ...] = ()

    @property
    def heard(self) -> float:
        return added(self.blank, self.letter)

    @property
    def score(self) -> float:
        return self.heard + self.said


def prefix_search(
    chances: np.ndarray, blank: int, how: PrefixBeam, space: int | None = None, judge: Judge | None = None
) -> Spelled:  # (T, V)
    """The likeliest text; of several ways to tell one, all count.  A judge is asked whenever a word ends."""
    beams: dict[Text, _Beam] = {(): _Beam(blank=0.0)}
    for frame, row in enumerate(chances):
        tried = np.flatnonzero(row >= max(how.least, row.max() - 30)).tolist()
        grown: dict[Text, _Beam] = {}
        for text, beam in beams.items():
            extend(grown, text, beam, row, tried, blank, frame)
        if judge is not None and space is not None:
            grown = {text: judged(text, beam, beams, how, space, judge) for text, beam in grown.items()}
        beams = dict(sorted(grown.items(), key=lambda item: -item[1].score)[: how.size])
    if judge is not None:
        ended = ((text, beam) for text, beam in beams.items() if text and text[-1] != space)
        beams |= {text: replace(beam, said=beam.said + gained(judge, text, how, ended=True)) for text, beam in ended}
    text, beam = max(beams.items(), key=lambda item: item[1].score)
    return Spelled([*text], [*beam.frames], beam.heard)


def extend(
    grown: dict[Text, _Beam], text: Text, beam: _Beam, row: np.ndarray, tried: Sequence[int], blank: int, frame: int
) -> None:
    """All ways on from a beginning: it stays as it is, by a blank or by its last letter again, or it has one more."""
    for letter in tried:
        chance = float(row[letter])
        if letter == blank:
            join(grown, text, beam, blank=beam.heard + chance)
        elif text and letter == text[-1]:
            join(grown, text, beam, letter=beam.letter + chance)
            join(grown, (*text, letter), told(beam, frame), letter=beam.blank + chance)
        else:
            join(grown, (*text, letter), told(beam, frame), letter=beam.heard + chance)


def told(beam: _Beam, frame: int) -> _Beam:
    return replace(beam, frames=(*beam.frames, frame))


def join(grown: dict[Text, _Beam], text: Text, beam: _Beam, blank: float = NEVER, letter: float = NEVER) -> None:
    if blank == letter == NEVER:
        return
    was = grown.get(text) or _Beam(said=beam.said, frames=beam.frames)
    grown[text] = replace(was, blank=added(was.blank, blank), letter=added(was.letter, letter))


def judged(text: Text, beam: _Beam, before: dict[Text, _Beam], how: PrefixBeam, space: int, judge: Judge) -> _Beam:
    """A beginning, with what the judge says of the word that it has just ended; once said it stands."""
    if text in before:
        return replace(beam, said=before[text].said)
    ends = len(text) > 1 and text[-1] == space != text[-2]
    return replace(beam, said=beam.said + gained(judge, text[:-1], how, ended=False)) if ends else beam


def gained(judge: Judge, text: Text, how: PrefixBeam, *, ended: bool) -> float:
    return how.weight * judge.gain(text, ended) + how.bonus


def added(a: float, b: float) -> float:
    """The logarithm of a sum of two that are given by theirs."""
    high, low = (a, b) if a > b else (b, a)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))
