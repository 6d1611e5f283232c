"""Examples with labels: one text, two, or a text and the choices that may follow it, from the columns of a table."""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from regard.config import did_you_mean
from regard.data.columns import Columns, ColumnValues, Kind, find_columns, is_number, require_label
from regard.data.reading import UNLABELLED, Reading
from regard.data.split import ExampleKey, label_strata, number_strata, plain_text
from regard.data.table import BadRows, Table, parse_json, read_table
from regard.errors import Problem

SHOWN = 10  # labels that a message names


@dataclass(frozen=True, eq=False)
class Labelled:
    """Examples, the columns they were read from, and how many rows gave none."""

    source: str
    columns: Columns
    texts: list[tuple[str, ...]]  # one; the two of a pair; or the text of a choice and then all that may follow it
    labels: list[str]
    starts: array[int]  # the line each example begins at
    unit: str = "line"
    unlabelled: int = 0  # rows left out for want of a label
    empty: int = 0  # rows left out for a blank text
    skipped: int = 0  # bad rows left out

    def __len__(self) -> int:
        return len(self.labels)

    def place(self, example: int) -> str:
        return f"{self.source}, {self.unit} {self.starts[example]}"

    def take(self, numbers: Sequence[int], source: str) -> Labelled:
        """The chosen examples, in that order.  Rows that gave none stay with the file itself."""
        texts, labels = [self.texts[number] for number in numbers], [self.labels[number] for number in numbers]
        starts = array("q", (self.starts[number] for number in numbers))
        found = replace(self, source=source, texts=texts, labels=labels, starts=starts)
        return found if source == self.source else replace(found, unlabelled=0, empty=0, skipped=0)

    def example_keys(self) -> list[ExampleKey]:
        """A pair stays together with the same two texts the other way round."""
        scores = ColumnValues(str(self.columns.label), self.labels).holds_scores
        parts = number_strata([_order(label)[0] for label in self.labels]) if scores else label_strata(self.labels)
        return [
            ExampleKey(plain_text(texts), label, part, () if scores else (label,), plain_text(sorted(texts)))
            for texts, label, part in zip(self.texts, self.labels, parts, strict=True)
        ]

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        return [
            f"{self.source}: {len(self):,} examples; left out: {self.unlabelled:,} without a label, "
            f"{self.empty:,} with a blank text, {self.skipped:,} bad",
            str(self.columns),
            *(f"warning: {warning}" for warning in self.warnings()),
        ]

    def warnings(self) -> list[str]:
        found = []
        if len(set(self.labels)) == 1:
            found.append(f"all examples have the label {self.labels[0]!r}: nothing can be learned from them")
        if self.unlabelled:
            found.append(
                f"{self.unlabelled:,} rows are left out as unlabelled; if theirs is a class, say --unlabelled ''"
            )
        return found


@dataclass(frozen=True)
class LabelMap:
    """The labels of a task in an order that does not change: the id of a label is its place."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Iterable[str]) -> LabelMap:
        """Numbers come first, by what they are worth; then text."""
        return cls(tuple(sorted(set(labels), key=_order)))

    def __len__(self) -> int:
        return len(self.names)

    def ids(self, labels: Sequence[str], place: Callable[[int], str]) -> list[int]:
        """The ids of labels; `place` says where one stands, for one that was never seen."""
        known = {name: number for number, name in enumerate(self.names)}
        for number, label in enumerate(labels):
            if label not in known:
                hint = did_you_mean(label, self.names)
                raise Problem(f"{place(number)}: the label {label!r} did not occur in training; {hint}")
        return [known[label] for label in labels]

    def unseen(self, labels: Iterable[str]) -> dict[str, int]:
        """How often each label occurs that is none of these, the most frequent first."""
        known = set(self.names)
        return dict(Counter(label for label in labels if label not in known).most_common())

    def check(self, labels: Iterable[str], source: str) -> None:
        """Refuse labels of which none is one of these: they have other names, or are of another task."""
        given = LabelMap.of(labels)
        if given.names and not set(given.names) & set(self.names):
            some = zip(given.names[:SHOWN], self.names, strict=False)
            pairs = ",".join(f"{one}={other}" for one, other in some)
            raise Problem(
                f"{source}: none of its labels ({_some(given.names)}) is one of the model's ({_some(self.names)}). "
                f"Say which is which, such as --label-map {pairs}, or give another file."
            )


@dataclass(frozen=True)
class Overlap:
    """How many examples have texts that occur elsewhere, and how many of these have the same label there."""

    examples: int
    texts: int
    both: int

    def __str__(self) -> str:
        share = self.texts / self.examples
        return f"{self.texts:,} of {self.examples:,} examples ({share:.1%}), {self.both:,} with the same label"


def read_labelled(
    path: str | Path,
    kind: Kind,
    columns: Columns | None = None,
    *,
    encoding: str = "utf-8",
    header: bool | None = None,
    skip_bad: int = 0,
    unlabelled: Sequence[str] = UNLABELLED,
) -> Labelled:
    """The examples of a file.  Rows with a blank text, or a label that means there is none, are left out and counted;
    a blank label, or for regression one that is no number, is a bad row, of which `skip_bad` may be left out."""
    table = read_table(path, encoding, header=header, skip_bad=skip_bad)
    return label_table(table, kind, columns, skip_bad=skip_bad, unlabelled=unlabelled)


def read_examples(path: str | Path, kind: Kind, reading: Reading) -> Labelled:
    """The examples of a file, read as `reading` says, with labels renamed by its label map."""
    r = reading
    kinds = {"header": r.header, "skip_bad": r.skip_bad, "unlabelled": r.unmapped}
    found = read_labelled(path, kind, Columns.of(r), encoding=r.encoding, **kinds)  # type: ignore[arg-type]
    renames = r.renames
    return replace(found, labels=[renames.get(label, label) for label in found.labels]) if renames else found


def label_table(
    table: Table,
    kind: Kind,
    columns: Columns | None = None,
    *,
    skip_bad: int = 0,
    unlabelled: Sequence[str] = UNLABELLED,
) -> Labelled:
    """The examples of a table, as `read_labelled` has them."""
    found = find_columns(table, kind, columns or Columns())
    column, bad = table.names.index(require_label(table, kind, found)), BadRows(skip_bad, table.skipped)
    texts, labels, starts = [], [], array("q")
    nobody = empty = 0
    for row, shown in enumerate(_texts(table, found)):
        label = table.rows[row][column].strip()
        if kind != "regress" and label in unlabelled:
            nobody += 1
        elif not label:
            bad.add(f"{table.place(row)}: the label, in column {found.label!r}, is blank.")
        elif kind == "regress" and not is_number(label):
            bad.add(f"{table.place(row)}: the label {label!r} is no finite number.")
        elif not all(text.strip() for text in shown):
            empty += 1
        else:
            texts.append(shown)
            labels.append(sys.intern(label))  # a few labels, a million rows
            starts.append(table.starts[row])
    if not labels:
        raise Problem(
            f"{table.source} has no example: of {len(table):,} rows {nobody:,} are unlabelled, {empty:,} blank."
        )
    return Labelled(table.source, found, texts, labels, starts, table.unit, nobody, empty, bad.count)


def read_texts(
    path: str | Path,
    kind: Kind,
    columns: Columns | None = None,
    *,
    encoding: str = "utf-8",
    header: bool | None = None,
) -> list[tuple[str, ...]]:
    """The texts of every row, for a model to label."""
    table = read_table(path, encoding, header=header)
    return list(_texts(table, find_columns(table, kind, columns or Columns())))


def numbers(examples: Labelled) -> list[float]:
    """The labels as numbers, for regression."""
    for example, label in enumerate(examples.labels):
        if not is_number(label):
            raise Problem(
                f"{examples.place(example)}: the label {label!r} is no finite number. Mend it, or name another column."
            )
    return [float(label) for label in examples.labels]


def right_choices(examples: Labelled) -> list[int]:
    """Which choice is right, from 0.  Labels are numbers from 0, or from 1 where none is 0 and one is as great as the
    number of choices; or letters from A."""
    counts = [len(texts) - 1 for texts in examples.texts]
    given = [_ordinal(label) for label in examples.labels]
    first = int(0 not in given and any(number == count for number, count in zip(given, counts, strict=True)))
    for example, (number, count) in enumerate(zip(given, counts, strict=True)):
        if not first <= number < first + count:
            raise Problem(
                f"{examples.place(example)}: the label {examples.labels[example]!r} is none of {count} choices; "
                f"give a number from {first} to {first + count - 1}, or a letter from A."
            )
    return [number - first for number in given]


def overlap(train: Labelled, other: Labelled) -> Overlap:
    """How much of `other` is in `train`, but for case and spaces."""
    seen = dict[tuple[str, ...], set[str]]()
    for texts, label in zip(train.texts, train.labels, strict=True):
        seen.setdefault(_plain(texts), set()).add(label)
    found = [(seen.get(_plain(texts)), label) for texts, label in zip(other.texts, other.labels, strict=True)]
    shared = [label in labels for labels, label in found if labels]
    return Overlap(len(other), len(shared), sum(shared))


def duplicates(examples: Labelled) -> int:
    """How many examples have texts that occurred before, but for case and spaces."""
    return len(examples) - len({_plain(texts) for texts in examples.texts})


def _texts(table: Table, columns: Columns) -> Iterator[tuple[str, ...]]:
    shown = [table.names.index(str(name)) for role, name in columns.roles().items() if role != "label"]
    for row, cells in enumerate(table.rows):
        texts = tuple(cells[column] for column in shown)
        yield texts if len(columns.choices) != 1 else (texts[0], *_listed(texts[1], table.place(row)))


def _listed(cell: str, place: str) -> list[str]:
    choices = parse_json(cell, f"{place}: {cell[:40]!r}")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) for choice in choices):
        raise Problem(f"{place}: {cell[:40]!r} is no list of two or more texts to choose from.")
    return choices


def _ordinal(label: str) -> int:
    if re.fullmatch("[A-Z]", label):
        return ord(label) - ord("A")
    return int(label) if label.isdecimal() else -1


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)


def _order(label: str) -> tuple[float, str]:
    return float(label) if is_number(label) else inf, label


def _plain(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(" ".join(text.casefold().split()) for text in texts)
