"""Rows of a table as pairs of texts, so that any task is text to text (T5, Raffel et al. 2020)."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

from regard.config import did_you_mean
from regard.data.columns import Columns, find_columns, infer_label
from regard.data.parallel import Parallel
from regard.data.reading import Reading
from regard.data.table import BadRows, Table, read_table
from regard.errors import Problem, UsageProblem

WHOLE = "{text}"  # the template that adds nothing
FIELD = re.compile(r"\{([^{}]*)\}")
SOURCES, TARGETS = ("source", "input"), ("target", "output", "answer", "summary", "translation")  # likely names


def read_pairs(path: str | Path, template: str = WHOLE, reading: Reading | None = None) -> Parallel:
    """What a template makes of each row, and what is to be written: the cell in the label's column.

    A template has names of columns in braces, as in "sst2 sentence: {text}"; `text` and `second` are the columns that
    `reading` says, or that are guessed.  Rows without a label are left out.
    """
    reading = reading or Reading()
    table = read_table(path, reading.encoding, header=reading.header, skip_bad=reading.skip_bad)
    fields = FIELD.findall(template)
    columns = found(table, fields, Columns.of(reading))
    if columns.label is None:
        raise Problem(f"{path}: no column looks like what is to be written; name it (--label)")
    at = {name: place_of(table, columns, name) for name in fields}
    target, bad = table.names.index(str(columns.label)), BadRows(reading.skip_bad, table.skipped)
    sources, targets = [], []
    for number, row in enumerate(table.rows):
        wanted = row[target].strip()
        if not wanted:
            bad.add(f"{table.place(number)}: what is to be written, in column {columns.label!r}, is blank.")
        elif wanted not in reading.unlabelled:
            sources.append(one_line(written(template, {name: row[place] for name, place in at.items()})))
            targets.append(one_line(wanted))
    return told(path, table, Parallel(sources, targets, str(path)))


def found(table: Table, fields: list[str], given: Columns) -> Columns:
    """The columns that were given, or that a template names, and guesses at the others."""
    if not fields:
        raise UsageProblem("a template names no column: put one in braces, as in 'sst2 sentence: {text}'")
    named = SOURCES if "text" in fields else (*SOURCES, *fields)
    text = given.text or next((name for name in named if name in table.names), None)
    label = given.label or next((name for name in TARGETS if name in table.names), None)
    two = "second" in fields and "second" not in table.names
    columns = find_columns(table, "pair" if two else "classify", replace(given, text=text, label=label))
    scores = infer_label(table, "regress", columns) if columns.label is None else None  # numbers can be written too
    return replace(columns, label=columns.label or scores)


def place_of(table: Table, columns: Columns, name: str) -> int:
    """Where in a row the cell lies that a template names."""
    roles = {"text": columns.text, "second": columns.second}
    column = name if name in table.names else roles.get(name)
    if column is None:
        known = did_you_mean(name, [*table.names, "text", "second"])
        raise UsageProblem(f"{table.source} has no column {name!r}, which the template names; {known}")
    return table.names.index(str(column))


def written(template: str, cells: dict[str, str]) -> str:
    """A template with these cells in it; braces in a cell are text."""
    return FIELD.sub(lambda field: cells[field[1]], template)


def one_line(text: str) -> str:
    return " ".join(text.splitlines())


def told(path: str | Path, table: Table, pairs: Parallel) -> Parallel:
    """The pairs, with a warning if rows were left out."""
    if not len(pairs):
        raise Problem(f"{path} has no example: none of its {len(table):,} rows has a label.")
    if left := len(table) - len(pairs):
        warnings.warn(f"{path}: {left:,} of {len(table):,} rows are left out for want of a label", stacklevel=2)
    return pairs
