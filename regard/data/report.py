"""What will be learned from files of examples, said before training: labels and how often each occurs, what always
giving the commonest answer would score, and duplicates within and between the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np

from regard.data.labelled import Labelled, numbers
from regard.data.questions import Questions
from regard.data.split import ExampleKey, Splittable
from regard.data.tagged import Tagged, entities

MAX_SHOWN_LABELS = 20  # the commonest first


def answer_lines(data: Any, numeric: bool = False) -> list[str]:
    """What the examples of a file have for answers: labels with their counts, tags, or the spread of numbers."""
    match data:
        case Labelled() if numeric:
            return [_spread(numbers(data))]
        case Labelled():
            return [label_line(data.labels)]
        case Tagged():
            found = Counter(kind for tags in data.tags for kind, *_ in entities(tags)) if data.scheme != "none" else {}
            told = [f"entities: {_counts(Counter(found))}"] if found else []
            return [*told, label_line(chain.from_iterable(data.tags), "tags")]
        case Questions():
            return [label_line(("no answer" if question.impossible else "an answer" for question in data), "questions")]
    return []


def label_line(labels: Iterable[str], what: str = "labels") -> str:
    """Labels with their counts, and the majority share."""
    counts = Counter(labels)
    commonest, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return (
        f"{what}: {_counts(counts)}; majority share {count / counts.total():.1%} "
        f"(the accuracy of always answering {commonest!r})"
    )


def _counts(counts: Counter[str]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(f"{label} {count:,}" for label, count in ordered[:MAX_SHOWN_LABELS])
    return told + (f", and {len(ordered) - MAX_SHOWN_LABELS:,} more" if len(ordered) > MAX_SHOWN_LABELS else "")


def _spread(given: Sequence[float]) -> str:
    values = np.asarray(given)
    return (
        f"numbers: {values.min():g} to {values.max():g}, mean {values.mean():.4g}, "
        f"standard deviation {values.std():.4g} (the error of always answering the mean)"
    )


def duplicate_lines(files: Mapping[str, Splittable | None]) -> Iterator[str]:
    """How many examples occur twice in a file, but for case and spaces; and in two files."""
    keys = {name: data.example_keys() for name, data in files.items() if data is not None}
    inside = {name: (len(some) - len({key.text for key in some}), _contradicting(some)) for name, some in keys.items()}
    told = [
        f"{name} {count:,} of {len(keys[name]):,}" + (f" ({odd:,} of its texts with different answers)" if odd else "")
        for name, (count, odd) in inside.items()
    ]
    yield f"duplicates: {', '.join(told)}"
    for one, other in combinations(keys, 2):
        yield from _shared(one, keys[one], other, keys[other])


def _contradicting(keys: Sequence[ExampleKey]) -> int:
    answers: dict[str, set[str]] = {}
    for key in keys:
        answers.setdefault(key.text, set()).add(key.answer)
    return sum(len(found) > 1 for found in answers.values())


def _shared(one: str, first: Sequence[ExampleKey], other: str, second: Sequence[ExampleKey]) -> Iterator[str]:
    texts, both = {key.text for key in first}, {(key.text, key.answer) for key in first}
    shared = sum(key.text in texts for key in second)
    same = sum((key.text, key.answer) in both for key in second)
    if shared:
        yield (
            f"warning: {shared:,} of {len(second):,} examples of {other} ({shared / len(second):.1%}) are in {one} "
            f"too, {same:,} with the same answer: scores on {other} may flatter"
        )
