"""Lines of text from plain, .gz or .xz files or standard input, one at a time; and the fingerprint of files."""

from __future__ import annotations

import codecs
import hashlib
import io
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from regard.errors import Problem, UsageProblem
from regard.text.compressed import DAMAGED, open_compressed

LONGEST = 64 * 2**20  # characters of a line: what is longer is not text of one sentence a line
MARKS = {  # byte-order marks, the longest first: UTF-32's begins with UTF-16's
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
UNDECODED = re.compile("[\udc80-\udcff]")  # bytes that are no text, as "surrogateescape" shows them


def read_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file, or of standard input for "-".  A line ends at "\\n" or "\\r\\n" and nowhere else: other
    characters that some programs break lines at would put parallel files out of step.  A file that has no "\\n" but
    "\\r", as old Macs wrote them, ends its lines there."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        with _open(path) as stream:
            yield from _decoded(stream, name, encoding)
    except DAMAGED as error:
        raise Problem(f"{name} is damaged or incomplete ({error}). Fetch or compress it again.") from error
    except OSError as error:
        raise Problem(f"{name} cannot be read ({error.strerror or error}). Check the path.") from error


def fingerprint(paths: Iterable[str | Path]) -> str:
    """A hash of the contents of files, in this order: it changes when the data does, not when it moves."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise Problem(f"{path} cannot be read ({error.strerror}). Check the path.") from error
    return digest.hexdigest()


def _open(path: str | Path) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else open_compressed(path)


def _decoded(stream: BinaryIO, name: str, encoding: str) -> Iterator[str]:
    try:
        text = io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="\n")
    except LookupError:
        raise UsageProblem(f"{encoding!r} is no encoding of text; try utf-8, utf-16 or latin-1") from None
    number = 0
    try:
        for number, line in enumerate(iter(partial(text.readline, LONGEST), ""), 1):
            if number == 1:
                _check_mark(line, encoding, name)
                line = line.removeprefix("\ufeff")
            _check(line, encoding, f"{name}, line {number}")
            alone = number == 1 and not line.endswith("\n") and stream is not sys.stdin.buffer
            line = line.removesuffix("\n").removesuffix("\r")
            yield from _split_old_mac(line, name) if alone and "\r" in line else [line]
    except UnicodeError as error:  # UTF-16 and UTF-32 have no way to show what cannot be decoded
        raise Problem(f"{name}, after line {number}: {error}. Name the file's encoding with --encoding.") from error
    finally:
        if not stream.closed:
            text.detach()  # or it would close standard input


def _split_old_mac(text: str, name: str) -> list[str]:
    parts = text.split("\r")
    warnings.warn(f"{name}: {len(parts):,} lines end in CR alone, as on old Macs, and are read so", stacklevel=2)
    return parts


def _check_mark(line: str, encoding: str, name: str) -> None:
    """Refuse UTF-16 and UTF-32 that are read as if they were something else."""
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        return
    begin = line[:4].encode(encoding, "surrogateescape")
    other = next((other for other, marks in MARKS.items() if begin.startswith(marks)), None)
    if other is None and 3 * line.count("\0") > len(line):
        other = "utf-16-le" if line[1:2] == "\0" else "utf-16-be"
    if other:
        raise Problem(
            f"{name}, line 1, byte 1: this is {other.upper()}, as spreadsheets write it, and not {encoding}. "
            f"Give --encoding {other}, or save the file as UTF-8."
        )


def _check(line: str, encoding: str, place: str) -> None:
    if len(line) == LONGEST:
        raise Problem(f"{place} is longer than {LONGEST:,} characters. Is it text, with a sentence a line?")
    if wrong := UNDECODED.search(line):
        byte, before = ord(wrong[0]) - 0xDC00, line[: wrong.start()].encode(encoding, "surrogateescape")
        raise Problem(
            f"{place}, byte {len(before) + 1}: 0x{byte:02x} is not valid {encoding}. "
            "Save the file as UTF-8, or name its encoding with --encoding (such as latin-1 or utf-16)."
        )
