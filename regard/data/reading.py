"""How a file of examples is to be read, where a guess would go wrong.  No torch here: the command line shows these."""

from __future__ import annotations

from dataclasses import dataclass

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
