"""Files of word vectors: word2vec's text and binary forms (Mikolov et al. 2013), whose first line has the numbers of
words and of dimensions, and GloVe's text (Pennington et al. 2014), which has no such line."""

from __future__ import annotations

import gzip
import lzma
import re
import warnings
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np

from regard.errors import Problem
from regard.text.compressed import DAMAGED, decompressed

Form = Literal["text", "binary", "glove"]  # word2vec's two, and GloVe's

HEADER = re.compile(rb"(\d+)[ \t]+(\d+)\s*")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # in no text
SAMPLE = 2**12  # bytes that tell text from numbers
WIDEST = 2**16  # dimensions: more are a header that lies
LONGEST = 2**22  # bytes of a line, enough for the widest,
LONGEST_WORD = 2**12  # and of a word in a binary file
BLOCK = 2**23  # bytes of a binary file read at once,
LINES = 2**13  # lines of a text,
ROWS = 2**14  # and vectors written
BYTE_ORDER_MARK, WIDE_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
AGAIN = "Fetch or write it again."
SKIP = "Mend it, or leave out such vectors (--skip-bad N)."


class Found:
    """Words and vectors as they are read.  Each is checked, and up to `skip` bad ones are left out, with a warning."""

    def __init__(self, name: str, unit: str, skip: int):
        self.name, self.unit, self.skip = name, unit, skip
        self.places: dict[str, int] = {}  # where each word stands
        self.parts: list[np.ndarray] = []
        self.faults: list[str] = []

    @property
    def count(self) -> int:
        return len(self.places) + len(self.faults)

    def bad(self, place: int, why: str) -> None:
        self.faults.append(f"{self.name}, {self.unit} {place}: {why}")
        if len(self.faults) > self.skip:
            left = f" Beside it, {self.skip} were left out already." if self.skip else ""
            raise Problem(f"{self.faults[-1]}.{left} {SKIP}")

    def add(self, words: Sequence[bytes], matrix: np.ndarray, places: Sequence[int]) -> None:  # (n,), (n, W), (n,)
        finite = np.isfinite(matrix).all(1).tolist()
        kept = [self._good(word, ok, place) for word, ok, place in zip(words, finite, places, strict=True)]
        self.parts.append(matrix if all(kept) else matrix[kept])

    def _good(self, word: bytes, finite: bool, place: int) -> bool:
        try:
            text = word.decode()
        except UnicodeDecodeError as error:
            self.bad(place, f"the word {word[:40]!r} is not valid UTF-8 (byte 0x{word[error.start]:02x})")
            return False
        if why := self._fault(text, finite):
            self.bad(place, why)
        else:
            self.places[text] = place
        return not why

    def _fault(self, word: str, finite: bool) -> str:
        if not word or word.isspace():
            return "there is no word before the numbers"
        if word in self.places:
            return f"the word {word!r} has a vector already, in {self.unit} {self.places[word]}"
        return "" if finite else f"the vector of {word!r} has a number that is not finite"

    def done(self) -> tuple[list[str], np.ndarray]:
        if not self.places:
            raise Problem(f"{self.name} holds no vectors. {AGAIN}")
        if self.faults:
            told = f"{len(self.faults)} bad vectors were left out; the first: {self.faults[0]}"
            warnings.warn(told, stacklevel=2)
        return list(self.places), np.concatenate(self.parts)


def read_vectors(path: str | Path, skip_bad: int = 0) -> tuple[list[str], np.ndarray]:  # V words, (V, W) float32
    """The words and vectors of a file.  Which form it has, and whether it is packed (gzip, xz), is seen from its
    content.  Nothing is allocated on the word of a header."""
    try:
        with _unpacked(open(path, "rb"), str(path)) as stream:
            return _read(stream, str(path), skip_bad)
    except DAMAGED as error:
        raise Problem(f"{path} is damaged or incomplete ({error}). Fetch or compress it again.") from error
    except OSError as error:
        raise Problem(f"{path} cannot be read ({error.strerror or error}). Check the path.") from error


def write_vectors(path: str | Path, words: Sequence[str], matrix: np.ndarray, form: Form) -> None:
    """Write a file whole or not at all; packed where its name ends in .gz or .xz."""
    from regard.checkpoints.files import write_file

    for word in words:
        if not word or re.search(r"[ \t\r\n]", word):
            raise Problem(f"the word {word!r} cannot be written: in a file of vectors a space ends it. Rename it.")
    header = b"" if form == "glove" else b"%d %d\n" % matrix.shape
    rows = _binary_rows(words, matrix) if form == "binary" else _text_rows(words, matrix)
    write_file(Path(path), _packed(Path(path), b"".join([header, *rows])))


def _unpacked(file: BufferedReader, name: str) -> BufferedReader:
    begin = file.read(6)
    file.seek(0)
    if begin.startswith(b"\x1f\x8b"):
        return decompressed(file, "gzip", name)
    return decompressed(file, "xz", name) if begin == b"\xfd7zXZ\x00" else file


def _packed(path: Path, content: bytes) -> bytes:
    match path.suffix:
        case ".gz":
            return gzip.compress(content, mtime=0)  # no date: the same vectors make the same file
        case ".xz":
            return lzma.compress(content)
    return content


def _read(stream: BufferedReader, name: str, skip: int) -> tuple[list[str], np.ndarray]:
    first = stream.readline(LONGEST).removeprefix(BYTE_ORDER_MARK)
    if first.startswith(WIDE_MARKS):
        raise Problem(f"{name} is UTF-16, and vectors are kept as UTF-8. Save it so.")
    header = HEADER.fullmatch(first)
    if not header:
        found = Found(name, "line", skip)
        _read_text(_lines(stream, name, first), _width_of(first, name), 1, found)
        return found.done()
    count, width = _counts(header, name)
    if _is_text(stream.peek(SAMPLE)[:SAMPLE]):
        found = Found(name, "line", skip)
        _read_text(_lines(stream, name), width, 2, found)
    else:
        found = Found(name, "vector", skip)
        _read_binary(stream, count, width, found)
    if found.count != count:
        raise Problem(f"{name}: its header says {count:,} words and there are {found.count:,}. {AGAIN}")
    return found.done()


def _counts(header: re.Match[bytes], name: str) -> tuple[int, int]:
    if len(header[0]) > 40 or not 0 < int(header[2]) <= WIDEST:
        said = header[0][:60].decode().strip()
        raise Problem(f"{name}: its header says {said!r}; vectors have 1 to {WIDEST:,} dimensions. {AGAIN}")
    return int(header[1]), int(header[2])


def _width_of(line: bytes, name: str) -> int:
    """The dimensions of a file without a header, by its first line."""
    _, *numbers = line.split() or [b""]
    if not line.strip():
        raise Problem(f"{name} is empty, or begins with an empty line. {AGAIN}")
    if not numbers or not all(map(_number, numbers)):
        wrong = next((field for field in numbers if not _number(field)), b"")
        what = f"{wrong[:40].decode(errors='replace')!r} is no number" if numbers else "there are no numbers"
        raise Problem(f"{name}, line 1: {what} after the first word. Is it a file of word vectors?")
    return len(numbers)


def _is_text(sample: bytes) -> bool:
    """Whether what follows a header is written in digits; or should be, for text that is faulty is still text."""
    _, *numbers = sample.split(b"\n")[0].split() or [b""]
    if numbers and all(map(_number, numbers[:-1] or numbers)):  # the sample may end within the last
        return True
    try:
        return not CONTROL.search(getincrementaldecoder("utf-8")().decode(sample))
    except UnicodeDecodeError:
        return False


def _lines(stream: BufferedReader, name: str, first: bytes | None = None) -> Iterator[bytes]:
    """The lines of a text, of which the first may have been read already."""
    for line in chain([] if first is None else [first], iter(partial(stream.readline, LONGEST), b"")):
        if len(line) == LONGEST:
            raise Problem(f"{name} has a line of more than {LONGEST:,} bytes. Is it a file of word vectors?")
        yield line


def _read_text(lines: Iterator[bytes], width: int, number: int, found: Found) -> None:
    """Many lines at once where each is a word and its numbers; one by one where some line is not."""
    while some := list(islice(lines, LINES)):
        parts = [line.partition(b" ") for line in some]
        matrix = _parsed([rest for *_, rest in parts], width)
        if matrix is not None:
            found.add([word for word, *_ in parts], matrix, range(number, number + len(some)))
        else:
            for place, line in enumerate(some, number):
                _read_line(line, width, place, found)
        number += len(some)


def _parsed(rests: list[bytes], width: int) -> np.ndarray | None:  # (n, W)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is nothing to read is told by the shape
            matrix = np.loadtxt(rests, np.float32, comments=None, ndmin=2)
    except ValueError:
        return None
    return matrix if matrix.shape == (len(rests), width) else None


def _read_line(line: bytes, width: int, place: int, found: Found) -> None:
    fields = line.split()
    if not fields:
        return
    words, numbers = fields[:-width], fields[-width:]
    wrong = next((field for field in numbers if not _number(field)), None)
    if len(fields) == width + 1 and wrong is None and not line.startswith(b" "):
        found.add(words, np.array([numbers], "S").astype(np.float32), [place])
    elif len(fields) > width + 1 and wrong is None and not any(map(_number, words[1:])):
        found.bad(place, f"the word {b' '.join(words)[:40].decode(errors='replace')!r} has spaces in it")
    elif len(fields) == width + 1 and wrong is not None:
        found.bad(place, f"{wrong[:40].decode(errors='replace')!r} is no number")
    elif len(fields) == width and wrong is None:
        found.bad(place, f"there are {width} numbers and no word, or one number is missing")
    else:
        found.bad(place, f"numbers: {len(fields) - 1}, where {width} should be")


def _number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_binary(stream: BufferedReader, count: int, width: int, found: Found) -> None:
    number, rest = 1, b""
    while number <= count:
        more = stream.read(BLOCK)
        words, vectors, rest = _entries(rest + more, count + 1 - number, width)
        if words:
            matrix = np.frombuffer(vectors, "<f4").reshape(len(words), width).astype(np.float32)
            found.add(words, matrix, range(number, number + len(words)))
        elif not more:
            raise Problem(f"{found.name} ends within vector {number:,} of the {count:,} its header says. {AGAIN}")
        elif b" " not in rest[:LONGEST_WORD]:
            raise Problem(
                f"{found.name}: no word is where vector {number:,} should begin. Is its header right? {AGAIN}"
            )
        number += len(words)
    if rest.strip() or stream.read(1):
        raise Problem(f"{found.name} goes on after the {count:,} words its header says. {AGAIN}")


def _entries(block: bytes, most: int, width: int) -> tuple[list[bytes], bytes, bytes]:
    """The words that are there with all their numbers, the numbers, and the bytes that are left.  An entry is a word, a
    space and its numbers, 4 bytes each; then word2vec's own files have the end of a line, and others have not."""
    words, vectors, at = list[bytes](), list[bytes](), 0
    while len(words) < most:
        end = block.find(b" ", at, at + LONGEST_WORD)
        after = end + 1 + 4 * width
        if end < 0 or after > len(block):
            break
        words.append(block[at:end].lstrip(b"\r\n"))
        vectors.append(block[end + 1 : after])
        at = after
    return words, b"".join(vectors), block[at:]


def _binary_rows(words: Sequence[str], matrix: np.ndarray) -> Iterator[bytes]:
    for word, row in zip(words, matrix.astype("<f4"), strict=True):
        yield b"%b %b\n" % (word.encode(), row.tobytes())


def _text_rows(words: Sequence[str], matrix: np.ndarray) -> Iterator[bytes]:
    """Each number in the fewest digits that give it back."""
    for start in range(0, len(words), ROWS):
        some = slice(start, start + ROWS)
        for word, numbers in zip(words[some], matrix[some].astype("S").tolist(), strict=True):
            yield b"%b %b\n" % (word.encode(), b" ".join(numbers))
