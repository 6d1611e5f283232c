"""Which column of a table holds what: inferred from the names of columns and from their values, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Literal

from regard.config import did_you_mean
from regard.data.reading import Reading
from regard.data.table import Table
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
LABEL_WORDS = {"label", "class", "category", "judgment", "judgement", "sentiment", "topic", "intent", "emotion"}
NUMBERS = "score similarity similarity_score relatedness_score rating stars"
NUMBER_WORDS = {"score", "similarity", "relatedness", "rating", "stars", "value"}
CONTEXTS = "startphrase ctx premise question context goal sentence text prompt"
ANSWERS = "label answer answer_key answerkey gold_label gold correct"
CHOICE = re.compile(r"(?:ending|choice|option|answer|alternative|solution|sol)_?(\d+)")
CHOICES = "endings choices options alternatives candidates"

SAMPLE_ROWS = 1000  # that are looked at to see how many words a column's texts have
MAX_SCORE_CLASSES = 10  # different numbers of a score, up to which it may be a class: stars, a scale from 1 to 10
MAX_NUMBER_CLASSES = 20  # likewise of any number that does not count from 0 or 1 on
ENOUGH_ROWS = 20  # from which on a column that hardly repeats a value is told from one of classes
SHOWN_VALUES, SHOWN_CHARACTERS = 3, 30  # of a column that is described


@dataclass(frozen=True)
class Columns:
    """Which column holds what, by name or by number from 1.  What is not said is inferred."""

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


@dataclass(frozen=True)
class ColumnValues:
    """What a column holds, as far as it decides what the column is for."""

    name: str
    cells: Sequence[str]

    @cached_property
    def values(self) -> list[str]:
        """The different values that are not blank, in the order they first occur."""
        return list(dict.fromkeys(cell.strip() for cell in self.cells if cell.strip()))

    @cached_property
    def blank(self) -> int:
        return sum(not cell.strip() for cell in self.cells)

    @cached_property
    def words(self) -> float:
        """How many words a cell has on average."""
        sample = self.cells[:: len(self.cells) // SAMPLE_ROWS + 1]
        return sum(len(cell.split()) for cell in sample) / max(len(sample), 1)

    @cached_property
    def numbers(self) -> list[float]:
        return [float(value) for value in self.values if is_number(value)]

    @property
    def is_numeric(self) -> bool:
        """Whether at least half of its values are numbers: others are faults, to be named row by row."""
        return len(self.numbers) >= max(len(self.values) / 2, 1)

    @property
    def is_filled(self) -> bool:
        return self.blank < max(len(self.cells) / 2, 1)

    @property
    def holds_scores(self) -> bool:
        """Whether it holds numbers with too many values to be classes.  Whole numbers may be classes however many they
        are where the column is called so, or where they are all numbers from 0 or 1 on."""
        if not self.is_numeric or len(self.values) <= MAX_SCORE_CLASSES:
            return False
        if words_of(self.name) & NUMBER_WORDS or not all(number.is_integer() for number in self.numbers):
            return True
        counted = min(self.numbers) in (0, 1) and max(self.numbers) - min(self.numbers) < len(self.numbers)
        called = plain_name(self.name) in LABELS.split() or bool(words_of(self.name) & LABEL_WORDS)
        return len(self.values) > MAX_NUMBER_CLASSES and not counted and not called

    @property
    def holds_classes(self) -> bool:
        """Whether its values repeat, as the names of classes do."""
        filled = len(self.cells) - self.blank
        repeats = filled < ENOUGH_ROWS or len(self.values) <= filled / 2
        return bool(self.values) and repeats and not self.holds_scores

    def __str__(self) -> str:
        what = "numbers" if len(self.numbers) == len(self.values) else "values"
        shown = [value[:SHOWN_CHARACTERS] + "..." * (len(value) > SHOWN_CHARACTERS) for value in self.values]
        examples = f", such as {', '.join(map(repr, shown[:SHOWN_VALUES]))}" if shown else ""
        count = len(self.values)
        return f"{self.name}: {f'{count:,} different {what}' if count > 1 else f'{count} {what[:-1]}'}{examples}"


def find_columns(table: Table, kind: Kind, given: Columns) -> Columns:
    """The columns that were given, and those that are inferred: texts by their names, or where columns have none, by
    the most words; the label as `infer_label` has it, or None where that is in doubt."""
    if given.second is not None and kind in ("classify", "choose"):
        raise UsageProblem(
            f"second={given.second!r}: {kind} reads one text; the tasks that read two are pair and regress"
        )
    names = {role: column_name(table, name) for role, name in given.roles().items()}
    choices = tuple(name for role, name in names.items() if role.startswith("choice"))
    said = Columns(names.get("text"), names.get("second"), names.get("label"), choices)
    guess = _texts_by_name(table.names, kind) if table.named else _texts_by_contents(table, kind, said)
    texts = Columns(
        said.text or guess.text,
        said.second or (guess.second if kind == "pair" or said.text is None else None),
        None,
        said.choices or guess.choices,
    )
    label = said.label or infer_label(table, kind, texts)
    found = Columns(texts.text, texts.second, label, texts.choices)
    _check_roles(table, kind, found)
    return found


def infer_label(table: Table, kind: Kind, texts: Columns) -> str | None:
    """The column of the label among those that hold no text.  Names decide, as long as the values can be what a task
    learns: for regression numbers, else few values.  Where columns have no names, or no name says it, the values alone
    do; None where they leave several columns to choose from."""
    taken = set(texts.roles().values())
    rest = [column for column in contents_of(table) if column.name not in taken]
    by_name = [column for column in _by_likely_name(rest, kind) if _can_be_label(column, kind)] if table.named else []
    if by_name:
        return by_name[0].name
    return None if kind == "choose" else _label_by_values(rest, kind, table.named)


def require_label(table: Table, kind: Kind, found: Columns) -> str:
    """The name of the label's column; where there is none, what each column holds, and what to say."""
    if found.label is not None:
        return str(found.label)
    taken = set(found.roles().values())
    scores = [column for column in contents_of(table) if column.holds_scores and column.name not in taken]
    hint = ""
    if kind in ("classify", "pair") and (named := list(_by_likely_name(scores, "regress"))):
        hint = f" Numbers of many values, as {named[0].name!r} holds, are what regress learns."
    raise _missing(table, "label", hint)


def contents_of(table: Table) -> list[ColumnValues]:
    return [ColumnValues(name, cells) for name, cells in zip(table.names, zip(*table.rows, strict=True), strict=True)]


def is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def plain_name(name: str) -> str:
    """The name of a column in small letters, with _ for what is no letter or digit."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_")


def words_of(name: str) -> set[str]:
    return set(plain_name(name).split("_"))


def _by_likely_name(columns: Sequence[ColumnValues], kind: Kind) -> Iterable[ColumnValues]:
    """Columns that are called as labels are, the likeliest first: by the whole name, then by a word of it."""
    scores, classes = (NUMBERS, NUMBER_WORDS), (LABELS, LABEL_WORDS)
    orders = {"regress": (scores, classes), "choose": ((ANSWERS, set[str]()),)}.get(kind, (classes, scores))
    plain = {plain_name(column.name): column for column in columns}
    whole = [plain[name] for names, _ in orders for name in names.split() if name in plain]
    partly = [column for _, words in orders for column in columns if words_of(column.name) & words]
    return dict.fromkeys([*whole, *partly], None)


def _can_be_label(column: ColumnValues, kind: Kind) -> bool:
    if kind == "choose":
        return True
    return column.is_numeric or not column.values if kind == "regress" else not column.holds_scores


def _label_by_values(columns: Sequence[ColumnValues], kind: Kind, named: bool) -> str | None:
    """For regression a number, with a point if there is one such; else the column of the fewest different values.
    Where columns have names, none of which says label, only a single candidate is believed."""
    filled = [column for column in columns if column.is_filled and column.values]
    if kind == "regress":
        numeric = [column for column in filled if len(column.numbers) == len(column.values)]
        best = sorted(numeric, key=lambda column: ("." not in "".join(column.values), len(column.values)))
        candidates = best if not named else []
    else:
        classes = [column for column in filled if column.holds_classes]
        best = sorted(classes, key=lambda column: (len(column.values) == 1, len(column.values)))
        several = len(best) > 1 and (named or len(best[0].values) == len(best[1].values))
        candidates = [] if several or (named and (not best or len(best[0].cells) < ENOUGH_ROWS)) else best
    return candidates[0].name if candidates else None


def column_name(table: Table, name: Name) -> str:
    """The name of a column that was given by name, or by number from 1."""
    if str(name) in table.names:
        return str(name)
    if str(name).isdecimal() and 1 <= int(name) <= len(table.names):
        return table.names[int(name) - 1]
    raise UsageProblem(f"{table.source} has no column {name!r}; {did_you_mean(str(name), table.names)}")


def _check_roles(table: Table, kind: Kind, found: Columns) -> None:
    needed = ["text", *["second"] * (kind == "pair"), *["choices"] * (kind == "choose")]
    for role in needed:
        if not getattr(found, role):
            raise _missing(table, role)
    roles = found.roles()
    for role, name in roles.items():
        if others := [other for other in roles if roles[other] == name and other != role]:
            raise UsageProblem(f"{table.source}: column {name!r} cannot be both {role} and {others[0]}; name another")


def _missing(table: Table, role: str, hint: str = "") -> Problem:
    """That no column can be told to be the one that is needed, with what each of them holds."""
    hint += " If commas separate the columns, name the file .csv." if len(table.names) == 1 else ""
    held = "".join(f"\n  {column}" for column in contents_of(table))
    return Problem(
        f"{table.source}: no column looks like the {role}; there are: {', '.join(table.names)}. Say which it is, "
        f"by name or number (--{role}).{hint}{held}"
    )


def _texts_by_name(names: Sequence[str], kind: Kind) -> Columns:
    plain = {plain_name(name): name for name in names}

    def first(likely: str) -> str | None:
        return next((plain[name] for name in likely.split() if name in plain), None)

    if kind == "choose":
        numbered = sorted((int(found[1]), plain[name]) for name in plain if (found := CHOICE.fullmatch(name)))
        choices = tuple(name for _, name in numbered) if len(numbered) > 1 else tuple(filter(None, [first(CHOICES)]))
        return Columns(first(CONTEXTS), choices=choices)
    pair = next(((plain[one], plain[other]) for one, other in PAIRS if one in plain and other in plain), None)
    return Columns(first(TEXTS)) if kind == "classify" or pair is None else Columns(*pair)


def _texts_by_contents(table: Table, kind: Kind, said: Columns) -> Columns:
    columns = {column.name: column for column in contents_of(table) if column.name not in said.roles().values()}
    wordy = sorted(columns, key=lambda name: columns[name].words, reverse=True)
    several = kind == "regress" and said.text is None and len(wordy) > 1 and columns[wordy[1]].words >= 3
    roles = [role for role in ("text", "second")[: 1 + (kind == "pair" or several)] if role not in said.roles()]
    texts = dict(zip(roles, sorted(wordy[: len(roles)], key=table.names.index), strict=False))
    return Columns(texts.get("text"), texts.get("second"))
