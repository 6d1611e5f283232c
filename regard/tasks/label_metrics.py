"""How good labels and numbers are: accuracy, F1, Matthews' correlation and the table of confusions; Pearson's and
Spearman's correlations.  All are in hundredths, so that 100 is perfect; a correlation may be negative."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass

import numpy as np

from regard.data.labelled import LabelMap
from regard.errors import Problem
from regard.tasks.metrics import Score


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each expected label was predicted as each."""

    labels: tuple[str, ...]
    counts: np.ndarray  # (expected, predicted)

    @property
    def right(self) -> np.ndarray:  # for each label
        return self.counts.diagonal()

    @property
    def f1(self) -> np.ndarray:  # for each label, 0 to 1
        return 2 * self.right / (self.counts.sum(0) + self.counts.sum(1))

    def __str__(self) -> str:
        head = ["expected", *self.labels]
        rows = [[label, *map(str, row)] for label, row in zip(self.labels, self.counts.tolist(), strict=True)]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in (head, *rows))


def confusion(predicted: Sequence[str], expected: Sequence[str]) -> Confusion:
    """The table over all labels that occur."""
    _check(predicted, expected)
    labels = LabelMap.of([*predicted, *expected])
    ids = {label: number for number, label in enumerate(labels.names)}
    cells = [ids[was] * len(ids) + ids[said] for said, was in zip(predicted, expected, strict=True)]
    return Confusion(labels.names, np.bincount(cells, minlength=len(ids) ** 2).reshape(len(ids), len(ids)))


def f1_of(label: str) -> str:
    """What the F1 of one label is called."""
    return f"f1 of {label}"


def accuracy(predicted: Sequence[str], expected: Sequence[str]) -> Score:
    table = confusion(predicted, expected)
    right = int(table.right.sum())
    return Score("accuracy", 100 * right / len(expected), f"labels:{len(table.labels)}", f"{right} of {len(expected)}")


def macro_f1(predicted: Sequence[str], expected: Sequence[str]) -> Score:
    """The mean of the F1 of each label that was expected or predicted."""
    table = confusion(predicted, expected)
    each = ", ".join(f"{label} {100 * value:.2f}" for label, value in zip(table.labels, table.f1, strict=True))
    return Score("f1_macro", 100 * float(table.f1.mean()), f"average:macro|labels:{len(table.labels)}", each)


def micro_f1(predicted: Sequence[str], expected: Sequence[str]) -> Score:
    """F1 of all decisions together, which is the accuracy where each example has one label."""
    score = accuracy(predicted, expected)
    return Score("f1_micro", score.value, f"average:micro|{score.signature}", score.detail)


def binary_f1(predicted: Sequence[str], expected: Sequence[str], positive: str) -> Score:
    """F1 of the one label that is looked for; 0 where it was neither expected nor predicted."""
    _check(predicted, expected)
    both = sum(said == was == positive for said, was in zip(predicted, expected, strict=True))
    said, was = sum(label == positive for label in predicted), sum(label == positive for label in expected)
    value = 200 * both / (said + was) if said + was else 0.0
    return Score(f1_of(positive), value, f"positive:{positive}", _counts(was, said, both))


def f1_of_sets(predicted: np.ndarray, expected: np.ndarray, labels: Sequence[str]) -> list[Score]:
    """F1 where an example has any number of labels: of all decisions, the mean over labels, and of each label.  Both
    are (examples, labels), of truth values; a label that was neither expected nor predicted has 0."""
    _check(predicted, expected)
    both, said, was = (predicted & expected).sum(0), predicted.sum(0), expected.sum(0)  # (labels,) each
    each = 200 * both / np.maximum(said + was, 1)
    micro, signature = 200 * both.sum() / max((said + was).sum(), 1), f"labels:{len(labels)}"
    found = [
        Score("f1_micro", float(micro), f"average:micro|{signature}", _counts(was.sum(), said.sum(), both.sum())),
        Score("f1_macro", float(each.mean()), f"average:macro|{signature}", f"{len(expected)} examples"),
    ]
    for number, name in enumerate(labels):
        counts = _counts(was[number], said[number], both[number])
        found.append(Score(f1_of(name), float(each[number]), f"positive:{name}", counts))
    return found


def exact_sets(predicted: np.ndarray, expected: np.ndarray) -> Score:  # (examples, labels) both
    """The share of examples all of whose labels are right, and no others."""
    _check(predicted, expected)
    right = int((predicted == expected).all(1).sum())
    signature = f"unit:example|labels:{expected.shape[1]}"
    return Score("exact match", 100 * right / len(expected), signature, f"{right} of {len(expected)}")


def matthews(predicted: Sequence[str], expected: Sequence[str]) -> Score:
    """Matthews' correlation (1975), for any number of labels (Gorodkin 2004); 0 where one side never varies."""
    counts = confusion(predicted, expected).counts.astype(float)
    total, said, was = counts.sum(), counts.sum(0), counts.sum(1)
    spread = (total**2 - said @ said) * (total**2 - was @ was)
    value = (counts.trace() * total - said @ was) / spread**0.5 if spread else 0.0
    return Score("Matthews", 100 * float(value), f"labels:{len(counts)}", f"{len(expected)} examples")


def pearson(predicted: Sequence[float], expected: Sequence[float]) -> Score:
    """How nearly predictions are a line of what was expected; 0 where one side never varies."""
    return _correlation("Pearson", _numbers(predicted, "predicted"), _numbers(expected, "expected"))


def spearman(predicted: Sequence[float], expected: Sequence[float]) -> Score:
    """How nearly predictions are in the order of what was expected; equal numbers share their mean rank."""
    return _correlation("Spearman", _ranks(_numbers(predicted, "predicted")), _ranks(_numbers(expected, "expected")))


def _counts(expected: int, predicted: int, right: int) -> str:
    return f"{expected} expected, {predicted} predicted, {right} of them right"


def _correlation(metric: str, predicted: np.ndarray, expected: np.ndarray) -> Score:
    _check(predicted, expected)
    signature = f"examples:{len(expected)}"
    if not (np.ptp(predicted) and np.ptp(expected)):
        return Score(metric, 0.0, signature, "one side never varies")
    one, other = predicted - predicted.mean(), expected - expected.mean()
    value = float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    return Score(metric, 100 * value, signature, "")


def _numbers(given: Sequence[float], name: str) -> np.ndarray:
    found = np.asarray(given, float)
    if not np.isfinite(found).all():
        place = int(np.flatnonzero(~np.isfinite(found))[0])
        raise Problem(f"{name} number {place + 1} is {found[place]}, which cannot be scored; give finite numbers")
    return found


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[which]


def _check(predicted: Sized, expected: Sized) -> None:
    if len(predicted) != len(expected):
        raise Problem(f"{len(predicted)} predicted but {len(expected)} expected; give one for each, in the same order")
    if not len(expected):
        raise Problem("there is nothing to score: no example was given")
