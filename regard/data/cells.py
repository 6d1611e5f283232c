"""Rows of cells from the lines of CSV and TSV: which character separates them, and whether quotes are text."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from regard.data.lines import LONGEST
from regard.errors import Problem

Record = tuple[int, tuple[str, ...]]  # the number of the line it begins at, and its cells

SAMPLE_LINES = 20  # by which the separator of CSV is recognised
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # the likeliest first
NAMED_SEPARATOR = re.compile(r"sep=(.)")  # what Excel may write above the header
QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"')  # a cell as spreadsheets and pandas write it
QUOTED_ROW = re.compile(r'(?:(?:"[^"]*(?:""[^"]*)*"|[^"\t\n]*)(?:\t|\Z))+')


def csv_records(lines: Iterable[str], source: str) -> Iterator[Record]:
    """The rows of CSV.  Semicolons or tabs separate cells where commas do not, as spreadsheets in Europe write it."""
    lines = iter(lines)
    start = list(islice(lines, SAMPLE_LINES))
    named = NAMED_SEPARATOR.fullmatch(start[0].strip()) if start else None
    separator = named[1] if named else find_separator(start)
    if separator != ",":
        told = SEPARATORS.get(separator, repr(separator))
        warnings.warn(f"{source}: {told} separate the columns, not commas", stacklevel=2)
    yield from _parse_csv(chain(start[bool(named) :], lines), source, separator, 1 + bool(named))


def find_separator(start: Sequence[str]) -> str:
    """The separator by which all rows of the first lines have equally many cells; a comma if none does."""
    for separator in SEPARATORS:
        try:
            rows = [row for row in csv.reader((f"{line}\n" for line in start), delimiter=separator) if row]
        except csv.Error:
            continue
        widths = {len(row) for row in (rows[:-1] if len(start) == SAMPLE_LINES else rows)}  # the last may be cut
        if len(widths) == 1 and widths != {1}:
            return separator
    return ","


def _parse_csv(lines: Iterable[str], source: str, separator: str, first: int) -> Iterator[Record]:
    csv.field_size_limit(LONGEST)  # the module's own limit is less than a long article
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    while True:
        begin = reader.line_num + first
        try:
            cells = next(reader, None)
        except csv.Error as error:  # never left out as a bad row: a quote that is not closed takes all rows after it
            raise Problem(
                f"{source}, line {begin}: the row that begins here is not valid CSV ({error}). Look for a quote that "
                'is not closed; inside a quoted cell write it twice (""). If tabs separate the columns, name it .tsv.'
            ) from error
        if cells is None:
            return
        if cells:
            yield begin, tuple(cells)


def tsv_records(lines: Iterable[str], source: str) -> list[Record]:
    """The rows of TSV.  Quotes are text, as in GLUE's files, unless the whole file is written as spreadsheets and
    pandas write it: each cell that holds a quote begins and ends with one, and has those inside doubled.  In other
    files only cells that have doubled quotes inside are unquoted."""
    every = list(lines)
    plain = [(number, tuple(line.split("\t"))) for number, line in enumerate(every, 1) if line.strip()]
    if not any('"' in line for line in every):
        return plain
    quoted = _quoted_records(every)
    chosen = quoted if quoted and _is_quoted(quoted, plain) else plain
    unquoted = [(number, tuple(_unquote(cell, chosen is quoted) for cell in cells)) for number, cells in chosen]
    changed = sum(new != old for new, old in zip(unquoted, chosen, strict=True))
    if changed:
        warnings.warn(
            f"{source}: {changed:,} of {len(chosen):,} rows have cells in quotes, as spreadsheets and pandas write "
            "them; they are read without",
            stacklevel=2,
        )
    return unquoted


def _quoted_records(lines: Iterable[str]) -> list[Record]:
    """The rows of a file in which quotes are balanced, so that a cell may hold tabs and line ends; none if they are
    not."""
    found, begin, waiting = list[Record](), 1, list[str]()
    quotes = 0
    for number, line in enumerate(lines, 1):
        begin = begin if waiting else number
        waiting.append(line)
        quotes += line.count('"')
        if quotes % 2 == 0:
            row = "\n".join(waiting)
            if not QUOTED_ROW.fullmatch(row):
                return []
            if row.strip():
                found.append((begin, _split_quoted(row)))
            waiting, quotes = [], 0
    return [] if waiting else found


def _split_quoted(row: str) -> tuple[str, ...]:
    """The cells of a row between tabs that lie outside quotes."""
    if '"' not in row:
        return tuple(row.split("\t"))
    cells, parts, quotes = list[str](), list[str](), 0
    for part in row.split("\t"):
        parts.append(part)
        quotes += part.count('"')
        if quotes % 2 == 0:
            cells.append("\t".join(parts))
            parts = []
    return tuple(cells)


def _is_quoted(quoted: list[Record], plain: list[Record]) -> bool:
    """Whether rows whose quotes are balanced were written with quotes, and are no text that has them.

    A program that writes quotes does so where a cell holds a quote, a tab or a line end, or around all cells of a
    column, or, as Excel does, around all cells with a comma."""
    cells = [cell for _, row in quoted for cell in row]
    inside = {cell[1:-1] for cell in cells if cell.startswith('"')}
    spanning = {cell for cell in inside if "\t" in cell or "\n" in cell}
    doubled = any('"' in cell for cell in inside - spanning)
    if spanning:  # or else two quotes of two lines, which have nothing to do with each other
        return _are_even(quoted) and (doubled or not _are_even(plain))
    if doubled:
        return True
    columns = zip(*(row for _, row in quoted[1:]), strict=False)
    if len(quoted) > 2 and any(all(cell.startswith('"') for cell in column) for column in columns):
        return True
    return all("," in cell for cell in inside) and not any("," in cell for cell in cells if not cell.startswith('"'))


def _are_even(records: list[Record]) -> bool:
    return len({len(cells) for _, cells in records}) == 1


def _unquote(cell: str, always: bool) -> str:
    """A cell without the quotes around it, and those inside single; only one that has some inside, unless always."""
    found = QUOTED.fullmatch(cell) if cell.startswith('"') else None
    return found[1].replace('""', '"') if found and (always or '"' in found[1]) else cell
