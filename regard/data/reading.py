"""How a file of examples is to be read, where a guess would go wrong.  No torch here: the command line shows these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.errors import UsageProblem

UNLABELLED = ("-1", "-")  # labels of rows that nobody labelled


@dataclass(frozen=True)
class Reading:
    """Columns are named, or numbered from 1; what is None or empty is guessed."""

    text: str | None = None  # for tags, the column of words
    second: str | None = None
    label: str | None = None
    choices: tuple[str, ...] = ()  # a column for each choice, or one that holds lists of them
    header: bool | None = None
    skip_bad: int = 0  # rows that may be left out for a fault
    unlabelled: tuple[str, ...] = UNLABELLED
    encoding: str = "utf-8"
    label_map: tuple[str, ...] = ()  # "0=negative": what a label of the file is called here; others stay
    label_separator: str | None = None  # multi-label: between the labels of a cell; "": a cell is one label
    label_columns: tuple[str, ...] = ()  # multi-label: a column of 0 and 1 for each label

    def __post_init__(self) -> None:
        parse_label_map(self.label_map)  # refuses one that cannot be read

    @property
    def renames(self) -> dict[str, str]:
        """The label map: a file's label -> what it is called here."""
        return parse_label_map(self.label_map)

    @property
    def unmapped(self) -> tuple[str, ...]:
        """The labels that mean there is none, but for those that the map gives a name."""
        return tuple(label for label in self.unlabelled if label not in self.renames)


def parse_label_map(entries: Iterable[str]) -> dict[str, str]:
    """Entries such as 0=negative by what stands before the first =."""
    found: dict[str, str] = {}
    for entry in entries:
        label, equals, name = (part.strip() for part in entry.partition("="))
        if not (label and equals and name):
            raise UsageProblem(
                f"label map {entry!r}: give a label of the file and its name, such as 0=negative,1=positive"
            )
        if found.setdefault(label, name) != name:
            raise UsageProblem(f"label map: {label!r} is called both {found[label]!r} and {name!r}; give it one name")
    return found
