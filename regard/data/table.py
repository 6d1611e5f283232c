"""Tables of text from CSV, TSV, JSON lines or Parquet, each also compressed: rows of strings that know their line."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.cells import Record, csv_records, tsv_records
from regard.data.lines import read_lines
from regard.errors import Problem
from regard.text.compressed import DAMAGED, check_expansion, open_compressed

KINDS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
LOOK = 20  # lines that are looked at where the name of a file does not tell its kind
PARQUET_ROWS = 256  # read at once: each may be a book
BELOW = 1000  # rows in which a cell of the first row is looked for, to tell a header from data
OBJECT, LIST = re.compile(r'\s*\{\s*["}]'), re.compile(r"\s*\[\s*(\{|$)")
MARKED = re.compile(r"(([A-Z]+):\w+) (.+)")  # a line of TREC's questions: NUM:dist How far is it?
ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # JSON may write a character beyond U+FFFF as two such halves
HALF = re.compile("[\ud800-\udfff]")  # one without the other is no character


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of text.  A value that was missing is ""; one that was no text is its JSON."""

    source: str
    names: tuple[str, ...]  # of the columns
    rows: list[tuple[str, ...]]
    starts: array[int]  # the line each row begins at
    named: bool  # whether the names say what the columns hold; or else they are "1", "2" and so on
    skipped: int = 0  # bad rows that were left out
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, row: int) -> str:
        return f"{self.source}, {self.unit} {self.starts[row]}"


class BadRows:
    """How many rows could not be used; the first one beyond those that may be left out is a Problem."""

    def __init__(self, allowed: int, count: int = 0):
        self.allowed, self.count = allowed, count

    def add(self, fault: str) -> None:
        self.count += 1
        if self.count > self.allowed:
            raise Problem(f"{fault} Mend it, or let such rows be left out with --skip-bad N (now {self.allowed}).")


def read_table(path: str | Path, encoding: str = "utf-8", *, header: bool | None = None, skip_bad: int = 0) -> Table:
    """The rows of a file.  Its kind is told by its name (.csv, .tsv, .jsonl, .parquet; .gz or .xz may follow), or else
    by its first lines; text that is none of these is a table of one column.  CSV has quotes, TSV where the
    whole file is written so (`regard/data/cells.py`).  Of the rows that cannot be read, `skip_bad` may be left out.

    Whether CSV or TSV begins with a header is told by `header`.  Where that is None, the first row is one if all its
    cells are like names (of 40 characters and four words at most, no number, no end of a sentence; only the first may
    be blank) and none of them occurs again in its column."""
    suffix, source, bad = _suffix(path), str(path), BadRows(skip_bad)
    if suffix == ".parquet":
        return _read_parquet(path)
    lines = read_lines(path, encoding)
    start = list(islice(lines, LOOK))
    lines = chain(start, lines)
    match KINDS.get(suffix) or _kind_by_looking(start, suffix):
        case "jsonl":
            return _table_of_objects(source, "line", _json_lines(lines, source, bad), bad)
        case "json":
            return _table_of_objects(source, "item", _json_items(lines, source), bad)
        case "csv":
            return _table_of_cells(source, csv_records(lines, source), header, bad)
        case "tsv":
            return _table_of_cells(source, tsv_records(lines, source), header, bad)
        case "marked":
            return _table_of_cells(source, _marked_records(lines), True, bad)
    return _table_of_cells(source, ((number, (line,)) for number, line in enumerate(lines, 1)), False, bad)


def beside(*tables: Table) -> Table:
    """Tables of equally many rows as one, column after column; its places are those of the first."""
    first = tables[0]
    for table in tables[1:]:
        if len(table) != len(first):
            raise Problem(
                f"{first.source} has {len(first):,} rows and {table.source} has {len(table):,}: "
                "row n of one must belong to row n of the other."
            )
    names = tuple(name for table in tables for name in table.names)
    named = all(table.named for table in tables) and len(set(names)) == len(names)
    rows = [tuple(chain(*parts)) for parts in zip(*(table.rows for table in tables), strict=True)]
    source, skipped = " + ".join(table.source for table in tables), sum(table.skipped for table in tables)
    return Table(source, names if named else _numbered(len(names)), rows, first.starts, named, skipped, first.unit)


def parse_json(text: str, place: str) -> Any:
    """The value that JSON text stands for; refused where it has none, or more than one."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        if ESCAPED_HALF.search(text) and HALF.search(json.dumps(value, ensure_ascii=False)):
            raise ValueError("an escape \\ud... is half of a character")
    except RecursionError:
        raise Problem(f"{place} is nested too deeply to be data.") from None
    except ValueError as error:
        reason = str(error).replace("line 1 column", "column")  # of this text, which may be some line of a file
        raise Problem(f"{place} is not valid JSON ({reason}).") from error
    return value


def read_json(path: str | Path, encoding: str = "utf-8") -> Any:
    return parse_json("\n".join(read_lines(path, encoding)), str(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} occurs twice in an object")
    return found


def _suffix(path: str | Path) -> str:
    name = Path(path)
    return (Path(name.stem) if name.suffix in (".gz", ".xz") else name).suffix.lower()


def _kind_by_looking(start: list[str], suffix: str) -> str:
    full = [line for line in start if line.strip()]
    first = full[0] if full else ""
    if LIST.match(first) or (suffix == ".json" and first.lstrip().startswith("[")):
        return "json"
    if OBJECT.match(first) or suffix == ".json":
        return "jsonl"
    if "\t" in first:
        return "tsv"
    return "marked" if full and all(MARKED.fullmatch(line) for line in full) else "text"


def _marked_records(lines: Iterable[str]) -> Iterator[Record]:
    yield 0, ("label", "fine", "text")
    for number, line in enumerate(lines, 1):
        if found := MARKED.fullmatch(line):
            yield number, (found[2], found[1], found[3])
        elif line.strip():
            yield number, (line,)


def _json_lines(lines: Iterable[str], source: str, bad: BadRows) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, parse_json(line, f"{source}, line {number}")
            except Problem as problem:
                bad.add(str(problem))


def _json_items(lines: Iterable[str], source: str) -> Iterator[tuple[int, Any]]:
    return enumerate(parse_json("\n".join(lines), source), 1)


def _table_of_objects(source: str, unit: str, items: Iterable[tuple[int, Any]], bad: BadRows) -> Table:
    """A column for each key, in the order they first occur."""
    starts, rows = array("q"), []
    columns: dict[str, None] = {}
    for number, item in items:
        if isinstance(item, dict):
            columns |= dict.fromkeys(item)
            starts.append(number)
            rows.append(tuple(_text(item.get(name)) for name in columns))
        else:
            bad.add(f'{source}, {unit} {number} is no object of names and values, such as {{"text": ...}}.')
    if not columns:
        raise Problem(f"{source} has no rows. Give a file with an object for each example.")
    wide = [row + ("",) * (len(columns) - len(row)) for row in rows]  # keys that were new in a later row
    return Table(source, tuple(columns), wide, starts, True, bad.count, unit)


def _read_parquet(path: str | Path) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Problem(f"{path} is Parquet, which needs pyarrow: pip install 'regard[parquet]'") from None
    try:
        with open_compressed(path) as stream:
            content = stream.read()
        file = parquet.ParquetFile(pyarrow.BufferReader(content))
        found = pyarrow.Table.from_batches(parquet_batches(file, len(content), str(path)), file.schema_arrow)
    except (pyarrow.ArrowException, OSError, *DAMAGED) as error:
        raise Problem(f"{path} cannot be read as Parquet ({error}). Check the path, or write it again.") from error
    if not found.num_rows:
        raise Problem(f"{path} has no rows. Give a file with a row for each example.")
    rows = list(zip(*([_text(value) for value in column.to_pylist()] for column in found.columns), strict=True))
    names, starts = _names(str(path), found.column_names), array("q", range(1, len(rows) + 1))
    return Table(str(path), names, rows, starts, True, unit="row")


def parquet_batches(file: Any, stored: int, source: str, columns: list[str] | None = None) -> Iterator[Any]:
    """The rows of an open ParquetFile of `stored` bytes, some at a time.  A file may repeat one value a billion times
    in a few bytes; such is refused before it fills the memory."""
    check_expansion(file.metadata.num_rows, stored, source)
    size = 0
    for batch in file.iter_batches(PARQUET_ROWS, columns=columns):
        size += batch.nbytes
        check_expansion(size, stored, source)
        yield batch


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _table_of_cells(source: str, records: Iterable[Record], header: bool | None, bad: BadRows) -> Table:
    every = list(records)
    if not every:
        raise Problem(f"{source} is empty. Give a file with a row for each example.")
    width = Counter(len(cells) for _, cells in every).most_common(1)[0][0]
    named = _is_header([cells for _, cells in every[: BELOW + 1]], width) if header is None else header
    names = _names(source, every[0][1]) if named else _numbered(width)
    starts, rows = array("q"), []
    for number, cells in every[named:]:
        if len(cells) == len(names):
            starts.append(number)
            rows.append(cells)
        else:
            bad.add(f"{source}, line {number} has {len(cells)} columns where {len(names)} are expected.")
    if not rows:
        raise Problem(f"{source} has no rows below its header {', '.join(names)}. Give a row for each example.")
    return Table(source, names, rows, starts, named, bad.count)


def _is_header(rows: list[tuple[str, ...]], width: int) -> bool:
    first, *below = rows
    named = first if first[0].strip() else first[1:]
    if len(first) != width or not all(_like_a_name(cell.strip()) for cell in named):
        return False
    return not any(cell == name for row in below for cell, name in zip(row, first, strict=False))


def _like_a_name(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return 0 < len(cell) <= 40 and len(cell.split()) <= 4 and cell[-1] not in ".?!,;"
    return False


def _names(source: str, cells: Iterable[str]) -> tuple[str, ...]:
    """The header's names; a column without one goes by its number."""
    names = tuple(cell.strip() or str(number) for number, cell in enumerate(cells, 1))
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        places = " and ".join(str(number) for number, other in enumerate(names, 1) if other == name)
        raise Problem(
            f"{source}: columns {places} are both called {name!r}. Give each a name of its own; "
            "if the first row is no header, say so (--no-header)."
        )
    return names


def _numbered(width: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, width + 1))
