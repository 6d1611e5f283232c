"""How good tags are: precision, recall and F1 of whole entities by the rules of conlleval (CoNLL-2000), of all and of
each kind; and the share of words tagged rightly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.tagged import entities
from regard.errors import Problem
from regard.tasks.metrics import Score

Tags = Sequence[Sequence[str]]  # of each word of each sentence


@dataclass(frozen=True)
class Found:
    """How many entities there were, how many were predicted, and how many of those are right: kind, first and last
    word.  A share of nothing is None."""

    expected: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        return 100 * self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        return 100 * self.right / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        return 200 * self.right / (self.expected + self.predicted) if self.expected else None

    def __str__(self) -> str:
        shares = {"precision": self.precision, "recall": self.recall, "F1": self.f1}
        told = [f"{name} {'none' if share is None else f'{share:.2f}'}" for name, share in shares.items()]
        return f"{', '.join(told)}; {self.expected} expected, {self.predicted} predicted, {self.right} right"


def found_by_kind(predicted: Tags, expected: Tags) -> dict[str, Found]:
    """The counts of each kind that was expected or predicted."""
    _check(predicted, expected)
    was, said, right = Counter[str](), Counter[str](), Counter[str]()
    for guessed, true in zip(predicted, expected, strict=True):
        ours, theirs = entities(guessed), entities(true)
        said.update(kind for kind, _, _ in ours)
        was.update(kind for kind, _, _ in theirs)
        right.update(kind for kind, _, _ in set(ours) & set(theirs))
    return {kind: Found(was[kind], said[kind], right[kind]) for kind in sorted(was | said)}


def entity_f1(predicted: Tags, expected: Tags) -> Score:
    """F1 over the entities of all kinds together, which is the micro average of CoNLL's conlleval and of seqeval."""
    kinds = found_by_kind(predicted, expected).values()
    found = Found(
        sum(kind.expected for kind in kinds), sum(kind.predicted for kind in kinds), sum(kind.right for kind in kinds)
    )
    if found.f1 is None:
        raise Problem("the expected tags hold no entity, so that F1 means nothing; score tag accuracy instead")
    return Score("entity F1", found.f1, "average:micro|rules:conlleval", str(found))


def tag_accuracy(predicted: Tags, expected: Tags) -> Score:
    _check(predicted, expected)
    pairs = [
        pair for guessed, true in zip(predicted, expected, strict=True) for pair in zip(guessed, true, strict=True)
    ]
    right = sum(guessed == true for guessed, true in pairs)
    return Score("tag accuracy", 100 * right / len(pairs), "unit:word", f"{right} of {len(pairs)}")


def _check(predicted: Tags, expected: Tags) -> None:
    if len(predicted) != len(expected):
        raise Problem(f"{len(predicted)} sentences predicted but {len(expected)} expected; give one for each, in order")
    if not any(expected):
        raise Problem("there is nothing to score: no word was given")
    for number, (guessed, true) in enumerate(zip(predicted, expected, strict=True), 1):
        if len(guessed) != len(true):
            raise Problem(
                f"sentence {number} has {len(true)} words but {len(guessed)} predicted tags; give one for each"
            )
