"""Documents, paragraph by paragraph, from plain text, JSON lines or Parquet.  No file is held in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from regard.config import did_you_mean
from regard.data.lines import read_lines
from regard.data.table import parquet_batches, parse_json
from regard.errors import Problem, UsageProblem

KINDS = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}  # others are plain text
LIKELY = "text content body document article story passage paragraph review comment message sentence"  # columns of text
A_LINE = 'Give one object a line, such as {"text": "..."}.'


def read_documents(
    paths: Iterable[str | Path], encoding: str = "utf-8", column: str | None = None
) -> Iterator[Iterator[str]]:
    """The documents of files, each as its paragraphs, which are read as they are asked for: take them before the next
    document.  In plain text a paragraph is a line, and a document ends at a blank line or with the file.  A record of
    JSON lines (.jsonl, .json) and a row of Parquet is a document, whose text is in a column that is guessed unless
    named.  Text and JSON may be packed (.gz, .xz)."""
    for path in paths:
        match kind_of(path):
            case "json":
                yield from _from_json(path, encoding, column)
            case "parquet":
                yield from _from_parquet(path, column)
            case _ if column is not None:
                raise UsageProblem(f"{path} is read as plain text, which has no column {column!r}; leave it out")
            case _:
                yield from _documents(read_lines(path, encoding))


def kind_of(path: str | Path) -> str:
    """What a file is by its name: json, parquet or text."""
    name = str(path).lower().removesuffix(".gz").removesuffix(".xz")
    return KINDS.get(Path(name).suffix, "text")


def _documents(lines: Iterable[str]) -> Iterator[Iterator[str]]:
    for full, paragraphs in groupby(lines, key=lambda line: bool(line.strip())):
        if full:
            yield paragraphs


def _from_json(path: str | Path, encoding: str, column: str | None) -> Iterator[Iterator[str]]:
    for number, line in enumerate(read_lines(path, encoding), 1):
        if line.strip():
            place = f"{path}, line {number}"
            record = _record(line, place)
            column = _column(place, record, column)
            yield from _paragraphs(record[column], f"{place}: {column!r}")


def _record(line: str, place: str) -> dict[str, Any]:
    try:
        record = parse_json(line, place)
    except Problem as problem:
        raise Problem(f"{problem} {A_LINE}") from problem
    if not isinstance(record, dict):
        raise Problem(f"{place} is no object of names and values. {A_LINE}")
    return record


def _from_parquet(path: str | Path, column: str | None) -> Iterator[Iterator[str]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Problem(f"{path} is Parquet, which needs pyarrow: pip install 'regard[parquet]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            column = _column(str(path), file.schema_arrow.names, column)
            batches = parquet_batches(file, Path(path).stat().st_size, str(path), [column])
            texts = (text for some in batches for text in some.column(0).to_pylist())
            for number, text in enumerate(texts, 1):
                yield from _paragraphs(text, f"{path}, row {number}: {column!r}")
    except (pyarrow.ArrowException, OSError) as error:
        raise Problem(f"{path} cannot be read as Parquet ({error}). Check the path, or write it again.") from error


def _column(place: str, names: Iterable[str], column: str | None) -> str:
    """The column that was named, or found in an earlier record; or else the likeliest."""
    names = list(names)
    if column is None:
        plain = {re.sub(r"[\W_]+", "_", name.lower()).strip("_"): name for name in names}
        column = next((plain[name] for name in LIKELY.split() if name in plain), None)
        if column is None:
            raise Problem(f"{place}: no column looks like text; there are: {', '.join(names)}. Name it (--column).")
    if column not in names:
        raise Problem(f"{place} has no column {column!r}; {did_you_mean(column, names)}")
    return column


def _paragraphs(text: Any, place: str) -> Iterator[Iterator[str]]:
    """The document that a text is, or none if it is missing or blank."""
    if not isinstance(text, str | None):
        raise Problem(f"{place} holds no text but {str(text)[:40]!r}. Mend it, or name another column (--column).")
    if text and not text.isspace():
        yield (line for line in re.split("\r?\n", text) if line.strip())
