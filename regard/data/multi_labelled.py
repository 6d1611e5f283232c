"""Examples with any number of labels each: from JSON lists, from cells with a separator, or from columns of 0 and 1."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from regard.config import did_you_mean
from regard.data.labelled import Columns, Kind, Labelled, find_columns, label_table
from regard.data.reading import Reading
from regard.data.table import Table, read_table
from regard.errors import Problem, UsageProblem

SEPARATORS = ("|", ";", ",")  # what commonly stands between the labels of a cell
FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
LABELS = "labels"  # what the column is called that is made of columns of 0 and 1


@dataclass(frozen=True, eq=False)
class MultiLabelled(Labelled):
    """Examples whose `labels` are JSON lists of names, each in alphabetical order, so that equal sets are equal."""

    @property
    def label_sets(self) -> list[tuple[str, ...]]:
        return [names_in(label) for label in self.labels]

    def lines(self) -> list[str]:
        counts = Counter(chain.from_iterable(self.label_sets))
        each = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common())
        none = sum(not names for names in self.label_sets)
        return [*super().lines(), f"multi-label: {each}; {none:,} examples have none"]


@lru_cache(4096)  # a few sets, a million rows
def names_in(label: str) -> tuple[str, ...]:
    return tuple(json.loads(label))


def read_multi_labelled(path: str | Path, reading: Reading) -> MultiLabelled:
    """The examples of a file.  Labels are columns of 0 and 1 if some are named, else cells with a separator if it is
    given, else JSON lists.  An empty list, or a cell that is blank between separators, means that no label holds."""
    r = reading
    table = read_table(path, r.encoding, header=r.header, skip_bad=r.skip_bad)
    kind: Kind = "pair" if r.second is not None else "classify"
    table, columns = with_label_lists(table, kind, r)
    found = label_table(table, kind, columns, skip_bad=r.skip_bad, unlabelled=r.unmapped)
    renames = r.renames
    labels = [in_order(renames.get(name, name) for name in names_in(label)) for label in found.labels]
    return MultiLabelled(**{**vars(found), "labels": labels})


def holds_label_lists(path: str | Path, reading: Reading) -> bool:
    """Whether every label of a file is a JSON list.  A file that cannot be read is left to whoever reads it next."""
    r = reading
    try:
        table = read_table(path, r.encoding, header=r.header, skip_bad=r.skip_bad)
        column = find_columns(table, "classify", Columns.of(r)).label
    except Problem:
        return False
    cells = [row[table.names.index(str(column))] for row in table.rows] if column else []
    nobody = r.unmapped
    given = [cell for cell in cells if cell.strip() and cell.strip() not in nobody]
    return bool(given) and all(listed(cell) is not None for cell in given)


def with_label_lists(table: Table, kind: Kind, reading: Reading) -> tuple[Table, Columns]:
    """The same table with a JSON list in each cell of its label column, and its columns."""
    r = reading
    if r.label_columns:
        if r.label is not None or r.label_separator is not None:
            raise UsageProblem("columns of 0 and 1 hold the labels: leave out the label's column and the separator")
        joined = from_flags(table, r)
        return joined, find_columns(joined, kind, replace(Columns.of(r), label=LABELS))
    columns = find_columns(table, kind, Columns.of(r))
    if columns.label is None:
        return table, columns  # which will be refused, and the columns named
    place = table.names.index(str(columns.label))
    cells = [row[place] for row in table.rows]
    lists = separated(cells, r) if r.label_separator is not None else as_lists(table, cells, r)
    rows = [(*row[:place], cell, *row[place + 1 :]) for row, cell in zip(table.rows, lists, strict=True)]
    return replace(table, rows=rows), columns


def separated(cells: Sequence[str], reading: Reading) -> list[str]:
    """Cells whose labels a separator parts; without one, a cell is one label."""
    mark, nobody = reading.label_separator, reading.unmapped
    return [cell if cell.strip() in nobody else in_order(cell.split(mark) if mark else [cell]) for cell in cells]


def as_lists(table: Table, cells: Sequence[str], reading: Reading) -> list[str]:
    """Cells that are JSON lists; or single labels, if nothing looks as if it parted several."""
    nobody = reading.unmapped
    given = [(row, cell) for row, cell in enumerate(cells) if cell.strip() and cell.strip() not in nobody]
    found = {row: names for row, cell in given if (names := listed(cell)) is not None}
    if found and len(found) < len(given):
        row, cell = next((row, cell) for row, cell in given if row not in found)
        raise Problem(f"{table.place(row)}: the labels {cell[:40]!r} are no JSON list of names, as others are.")
    if not found:
        refuse_separators(table, given)
        found = {row: [cell] for row, cell in given}
    return [in_order(found[row]) if row in found else cell for row, cell in enumerate(cells)]


def refuse_separators(table: Table, given: Sequence[tuple[int, str]]) -> None:
    for mark in SEPARATORS:
        for row, cell in given:
            if mark in cell:
                raise Problem(
                    f"{table.place(row)}: {cell[:40]!r} may be one label or several. "
                    f"Say what parts labels (--label-separator '{mark}'), or that nothing does (--label-separator '')."
                )


def from_flags(table: Table, reading: Reading) -> Table:
    """The table with one more column: the names of the columns that are 1."""
    places = [place_of(table, name) for name in reading.label_columns]
    names = [table.names[place] for place in places]
    if LABELS in table.names:
        raise UsageProblem(f"{table.source} has a column {LABELS!r} of its own: rename it, or name no label columns")
    cells, unlabelled = [], reading.unmapped
    for row, values in enumerate(table.rows):
        flags = [values[place].strip().lower() for place in places]
        if nobody := next((flag for flag in flags if flag in unlabelled), None):
            cells.append(nobody)
            continue
        for name, flag in zip(names, flags, strict=True):
            if flag not in FLAGS:
                raise Problem(f"{table.place(row)}: {flag!r}, in column {name!r}, is neither 0 nor 1. Mend it.")
        cells.append(in_order(name for name, flag in zip(names, flags, strict=True) if FLAGS[flag]))
    rows = [(*row, cell) for row, cell in zip(table.rows, cells, strict=True)]
    return replace(table, names=(*table.names, LABELS), rows=rows)


def place_of(table: Table, name: str) -> int:
    if name in table.names:
        return table.names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    raise UsageProblem(f"{table.source} has no column {name!r}; {did_you_mean(name, table.names)}")


def listed(cell: str) -> list[str] | None:
    """The names in a JSON list; None if the cell is none."""
    if not cell.strip().startswith("["):
        return None
    try:
        names = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    if not isinstance(names, list) or not all(isinstance(name, str | int | float) for name in names):
        return None
    return [name if isinstance(name, str) else json.dumps(name) for name in names]


def in_order(names: Iterable[str]) -> str:
    """Names as a JSON list, each once."""
    return json.dumps(sorted({name.strip() for name in names} - {""}), ensure_ascii=False)
