"""Examples with labels: one text, two, or a text and the choices that may follow it, from the columns of a table."""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Literal

from regard.config import did_you_mean
from regard.data.reading import UNLABELLED, Reading
from regard.data.table import BadRows, Table, parse_json, read_table
from regard.errors import Problem, UsageProblem

Kind = Literal["classify", "pair", "regress", "choose"]
Name = str | int  # of a column; a number counts from 1

# What columns are called, the likeliest first, in small letters and with _ for what is no letter or digit.
TEXTS = "text sentence review tweet comment content body message document sentence1 premise question query title"
PAIRS = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("1_string", "2_string")),
    *(("text1", "text2"), ("text_a", "text_b"), ("sentence_a", "sentence_b"), ("sentence_1", "sentence_2")),
    *(("question", "sentence"), ("question", "passage"), ("question", "context"), ("question", "answer")),
    ("text", "text_pair"),
)
LABELS = "gold_label label labels class category sentiment polarity topic emotion intent is_duplicate quality"
NUMBERS = "score similarity similarity_score relatedness_score rating stars"
CONTEXTS = "startphrase ctx premise question context goal sentence text prompt"
ANSWERS = "label answer answer_key answerkey gold_label gold correct"
CHOICE = re.compile(r"(?:ending|choice|option|answer|alternative|solution|sol)_?(\d+)")
CHOICES = "endings choices options alternatives candidates"

SHOWN = 10  # labels that a message names
SAMPLE = 1000  # rows that are looked at where no names say what the columns hold


@dataclass(frozen=True)
class Columns:
    """Which column holds what, by name or by number from 1.  What is not said is guessed."""

    text: Name | None = None
    second: Name | None = None
    label: Name | None = None
    choices: tuple[Name, ...] = ()  # a column for each choice, or one that holds lists of them

    @classmethod
    def of(cls, reading: Reading) -> Columns:
        return cls(reading.text, reading.second, reading.label, reading.choices)

    def roles(self) -> dict[str, Name]:
        every = {"text": self.text, "second": self.second, "label": self.label}
        choices = {f"choice {number}": name for number, name in enumerate(self.choices, 1)}
        return {role: name for role, name in (every | choices).items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{role}: column {name!r}" for role, name in self.roles().items())


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
    _require(table, "label", found.label)
    column, bad = table.names.index(str(found.label)), BadRows(skip_bad, table.skipped)
    texts, labels, starts = [], [], array("q")
    nobody = empty = 0
    for row, shown in enumerate(_texts(table, found)):
        label = table.rows[row][column].strip()
        if kind != "regress" and label in unlabelled:
            nobody += 1
        elif not label:
            bad.add(f"{table.place(row)}: the label, in column {found.label!r}, is blank.")
        elif kind == "regress" and not _is_number(label):
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
        if not _is_number(label):
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


def find_columns(table: Table, kind: Kind, given: Columns) -> Columns:
    """The columns that were given, and guesses at the others: by their names, or where they have none, by what they
    hold.  Then the texts are the columns of the most words, and the label is that of the fewest different values; for
    regression, a number, with a point if there is one such."""
    if given.second is not None and kind in ("classify", "choose"):
        raise UsageProblem(
            f"second={given.second!r}: {kind} reads one text; the tasks that read two are pair and regress"
        )
    names = {role: _column(table, name) for role, name in given.roles().items()}
    choices = tuple(name for role, name in names.items() if role.startswith("choice"))
    said = Columns(names.get("text"), names.get("second"), names.get("label"), choices)
    guess = _guess_by_name(table.names, kind) if table.named else _guess_by_contents(table, kind, said)
    found = Columns(
        said.text or guess.text,
        said.second or (guess.second if kind == "pair" or said.text is None else None),
        said.label or guess.label,
        said.choices or guess.choices,
    )
    _check_roles(table, kind, found)
    return found


def _column(table: Table, name: Name) -> str:
    if str(name) in table.names:
        return str(name)
    if str(name).isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    raise UsageProblem(f"{table.source} has no column {name!r}; {did_you_mean(str(name), table.names)}")


def _check_roles(table: Table, kind: Kind, found: Columns) -> None:
    _require(table, "text", found.text)
    if kind == "pair":
        _require(table, "second", found.second)
    if kind == "choose":
        _require(table, "choices", found.choices)
    roles = found.roles()
    for role, name in roles.items():
        if others := [other for other in roles if roles[other] == name and other != role]:
            raise UsageProblem(f"{table.source}: column {name!r} cannot be both {role} and {others[0]}; name another")


def _require(table: Table, role: str, found: object) -> None:
    if not found:
        hint = " If commas separate the columns, name the file .csv." if len(table.names) == 1 else ""
        raise Problem(
            f"{table.source}: no column looks like the {role}; there are: {', '.join(table.names)}. Say which it is, "
            f"by name or number (--{role}).{hint}"
        )


def _guess_by_name(names: Sequence[str], kind: Kind) -> Columns:
    plain = {re.sub(r"[\W_]+", "_", name.lower()).strip("_"): name for name in names}

    def first(likely: str) -> str | None:
        return next((plain[name] for name in likely.split() if name in plain), None)

    if kind == "choose":
        numbered = sorted((int(found[1]), plain[name]) for name in plain if (found := CHOICE.fullmatch(name)))
        choices = tuple(name for _, name in numbered) if len(numbered) > 1 else tuple(filter(None, [first(CHOICES)]))
        return Columns(first(CONTEXTS), None, first(ANSWERS), choices)
    label = first(f"{NUMBERS} {LABELS}" if kind == "regress" else f"{LABELS} {NUMBERS}")
    pair = next(((plain[one], plain[other]) for one, other in PAIRS if one in plain and other in plain), None)
    if kind == "classify" or pair is None:
        return Columns(first(TEXTS), None, label)
    return Columns(*pair, label)


def _guess_by_contents(table: Table, kind: Kind, said: Columns) -> Columns:
    sample = table.rows[:: len(table) // SAMPLE + 1]
    taken = said.roles().values()
    columns = zip(table.names, zip(*sample, strict=True), strict=True)
    cells = {name: column for name, column in columns if name not in taken}
    words = {name: sum(len(cell.split()) for cell in column) / len(column) for name, column in cells.items()}
    wordy = sorted(cells, key=words.__getitem__, reverse=True)
    two = kind == "pair" or (kind == "regress" and said.text is None and len(wordy) > 1 and words[wordy[1]] >= 3)
    roles = [role for role in ("text", "second")[: 1 + two] if role not in said.roles()]
    texts = dict(zip(roles, sorted(wordy[: len(roles)], key=table.names.index), strict=False))
    rest = {name: column for name, column in cells.items() if name not in texts.values()}
    return Columns(texts.get("text"), texts.get("second"), _guess_label(rest, kind))


def _guess_label(cells: dict[str, tuple[str, ...]], kind: Kind) -> str | None:
    values = {name: set(filter(None, column)) for name, column in cells.items() if column.count("") < len(column) / 2}
    if kind == "regress":
        numeric = [name for name, found in values.items() if all(map(_is_number, found))]
        return min(numeric, key=lambda name: ("." not in "".join(values[name]), len(values[name])), default=None)
    return min(values, key=lambda name: (len(values[name]) == 1, len(values[name])), default=None)


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
    return float(label) if _is_number(label) else inf, label


def _is_number(label: str) -> bool:
    try:
        return isfinite(float(label))
    except ValueError:
        return False


def _plain(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(" ".join(text.casefold().split()) for text in texts)
