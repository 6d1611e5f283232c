"""Holding out a part of the training examples to choose weights by, where no dev file is given."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from regard.errors import Problem

DEV_SHARE = 0.1  # of the training examples that are held out
MAX_STRATA = 100  # different labels, up to which each is held out in proportion


@dataclass(frozen=True)
class ExampleKey:
    """What an example is known by: its text, for duplicates; its answer; and how it may be held out."""

    text: str
    answer: str = ""
    stratum: str = ""  # held out in proportion
    labels: tuple[str, ...] = ()  # of which training must not lose the last
    group: str | None = None  # what it stays together with; by default all of the same text
    usable: bool = True  # to choose weights by


class Splittable(Protocol):
    @property
    def source(self) -> str: ...

    def __len__(self) -> int: ...

    def example_keys(self) -> Sequence[ExampleKey]: ...

    def take(self, numbers: Sequence[int], source: str) -> Self: ...


Data = TypeVar("Data", bound=Splittable)


def hold_out(data: Data, seed: int, share: float = DEV_SHARE) -> tuple[Data, Data]:
    """The examples to train on, and a share of them to choose weights by.  Which are held out depends on the seed and
    on the examples alone, so a run that is resumed has the same."""
    held = held_out_numbers(data.example_keys(), seed, share)
    if not held:
        raise Problem(f"{data.source}: {len(data):,} examples are too few to hold some out; give others with --dev")
    inside = set(held)
    rest = [number for number in range(len(data)) if number not in inside]
    return data.take(rest, data.source), data.take(held, f"{data.source} (held out)")


def held_out_numbers(keys: Sequence[ExampleKey], seed: int, share: float = DEV_SHARE) -> list[int]:
    """Examples of every stratum, by whole groups.  Groups are put in order by stratum and then by a hash of the seed;
    along this order a group is held out whenever the share of what went by is due."""
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key.text if key.group is None else key.group, []).append(number)
    left = Counter(label for key in keys for label in set(key.labels))
    held, due = list[int](), 0.0
    for group in sorted(groups, key=lambda group: (keys[groups[group][0]].stratum, _hash(seed, group))):
        numbers = groups[group]
        due += share * len(numbers)
        lost = Counter(label for number in numbers for label in set(keys[number].labels))
        spared = all(left[label] > lost[label] for label in lost) and all(keys[number].usable for number in numbers)
        if due >= len(numbers) / 2 and len(numbers) < len(keys) and spared:
            held += numbers
            left.subtract(lost)
            due -= len(numbers)
    return sorted(held)


def plain_text(texts: Iterable[str]) -> str:
    """Texts as they are compared with others: but for case and spaces."""
    return "\n".join(" ".join(text.casefold().split()) for text in texts)


def number_strata(numbers: Sequence[float], count: int = 10) -> list[str]:
    """Which of so many parts of equal size, from the lowest to the highest, each number is in."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    part = {number: place * count // len(order) for place, number in enumerate(order)}
    return [str(part[number]) for number in range(len(numbers))]


def label_strata(labels: Sequence[str]) -> list[str]:
    """Labels as strata where they are few and repeat; else one stratum for all."""
    few = len(set(labels)) <= min(MAX_STRATA, len(labels) / 2)
    return list(labels) if few else [""] * len(labels)


def _hash(seed: int, group: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{group}".encode(errors="surrogatepass")).digest()
