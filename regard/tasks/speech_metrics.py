"""How good transcripts are: errors of words and of letters, by the fewest changes that make one text the other
(Levenshtein, 1966)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from regard.errors import Problem
from regard.tasks.metrics import Score


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Words put in, left out or changed, in percent of the words that were said; spaces part words."""
    return error_rate("word error rate", [text.split() for text in hypotheses], [text.split() for text in references])


def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The same of letters; a space between words is one."""
    spaced = [[" ".join(text.split()) for text in texts] for texts in (hypotheses, references)]
    return error_rate("character error rate", *spaced)


def error_rate(name: str, hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> Score:
    if len(hypotheses) != len(references):
        raise Problem(f"{len(hypotheses)} transcripts and {len(references)} references: give one for each")
    said = sum(map(len, references))
    if not said:
        raise Problem("there is nothing to score: the references have no words")
    wrong = sum(distance(*pair) for pair in zip(hypotheses, references, strict=True))
    return Score(name, 100 * wrong / said, "case:mixed", f"{wrong:,} errors in {said:,}")


def distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The fewest changes.  Row by row: what comes from above or from the corner at once, and then what comes from the
    left, which is the least of all before it with a step for each place between."""
    ids: dict[Hashable, int] = {}
    first, second = (np.array([ids.setdefault(item, len(ids)) for item in some], np.int64) for some in (one, other))
    places = np.arange(len(second) + 1)
    row = places
    for number, item in enumerate(first, 1):
        best = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + (second != item))])
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1])
