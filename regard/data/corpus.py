"""Text for pretraining: encoded once, sentence by sentence, into files that are mapped into memory, never read whole.

A folder holds the ids of all documents laid end to end, in shards of equally many tokens; where each sentence begins,
in tokens; where each document begins, in sentences; and corpus.json, which says how much there is of each, and how many
bytes with which hash: a run that opens the folder again sees whether they are those that were written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from tokenize import TokenError
from typing import Literal

import numpy as np
from numpy.lib import format as npy

from regard.checkpoints.files import (
    PARTIAL,
    check_entries,
    file_entries,
    read_checked_json,
    write_checked_json,
)
from regard.config import from_dict, to_dict
from regard.data.documents import kind_of, read_documents
from regard.data.lines import fingerprint
from regard.data.parallel import Ragged
from regard.data.sentences import sentences
from regard.data.whole import LineEncoder, Text, whole_texts
from regard.errors import Problem
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import unknown_ids

FACTS, SENTENCES, DOCUMENTS = "corpus.json", "sentences.npy", "documents.npy"
FILES = "files"  # the key of corpus.json under which the sizes and hashes of the other files stand
ANEW = "Remove the folder to encode the text anew, or choose another."
VERSION = 1  # of the files, and of how text is cut into sentences: another one encodes anew
SHARD = 64 * 2**20  # tokens a file
TOGETHER = 2**20  # characters encoded at once
UNKNOWN_WORDS = 0.02  # the share of unknown tokens that deserves a warning, where words may be tokens; else
UNKNOWN = 0.01  # the share of unknown pieces,
SMALL = 1_000_000  # the tokens of a corpus,
BRIEF = 32  # and the tokens of a document on average, that deserve a warning


@dataclass(frozen=True)
class Facts:
    """What corpus.json says."""

    fingerprint: str  # of the text, of the tokenizer and of how they were used
    kind: Literal["uint16", "uint32"]  # of an id
    shard: int  # tokens a file
    tokens: int
    unknown: int  # tokens
    sentences: int
    documents: int
    words: int = 0  # of text that is encoded whole; the end of a line counts as one
    bytes: int = 0  # of the same
    unknown_bytes: int | None = None  # of the same: the bytes that unknown tokens stand for; None: not counted


class Corpus:
    """Documents of sentences of ids.  Tokens and sentences are numbered through the whole corpus."""

    def __init__(self, folder: Path, facts: Facts):
        self.folder, self.facts = folder, facts
        self.sentences = _mapped(folder / SENTENCES, "int64", facts.sentences + 1)  # their first tokens, and the end
        self.documents = _mapped(folder / DOCUMENTS, "int64", facts.documents + 1)  # their first sentences, and the end
        sizes = (min(facts.shard, facts.tokens - at) for at in range(0, facts.tokens, facts.shard))
        self._shards = [_mapped(folder / _name(number), facts.kind, size) for number, size in enumerate(sizes)]

    @classmethod
    def make(
        cls,
        paths: Sequence[str | Path],
        tokenizer: Tokenizer,
        folder: str | Path,
        *,
        encoding: str = "utf-8",
        column: str | None = None,
        shard: int = SHARD,
        whole: bool = False,
    ) -> Corpus:
        """The corpus of these files, which is made if the folder does not hold it yet.  One process may make it.  Text
        that is encoded `whole` keeps its spaces and its lines; a sentence is then a block of lines."""
        folder, mark = Path(folder), _fingerprint(paths, tokenizer, encoding, column, whole)
        if folder.exists():
            return cls._again(folder, mark)
        with _coming(folder) as partial:
            if whole:
                _write_whole(whole_texts(paths, encoding, column), tokenizer, partial, mark, shard)
            else:
                _write(read_documents(paths, encoding, column), tokenizer, partial, mark, shard)
        return cls.load(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Corpus:
        place = Path(folder) / FACTS
        if not place.exists():
            raise Problem(f"{place} cannot be read (it is missing): {folder} holds no encoded text. Choose another.")
        try:
            said = read_checked_json(place)
        except Problem as problem:
            raise Problem(f"{problem} {ANEW}") from None
        try:
            said.pop(FILES)
            facts = from_dict(Facts, said, str(place))
        except (Problem, KeyError, TypeError) as error:
            raise _damaged(place, error) from error
        if min(facts.shard, facts.tokens, facts.sentences, facts.documents) < 1:
            raise _damaged(place, "it counts nothing")
        return cls(Path(folder), facts)

    @classmethod
    def _again(cls, folder: Path, mark: str) -> Corpus:
        corpus = cls.load(folder)
        if corpus.facts.fingerprint != mark:
            raise Problem(
                f"{folder} holds other text, or text that was encoded otherwise: the files, their encoding, the column "
                "or the tokenizer have changed. Remove it to encode the text anew, or choose another folder."
            )
        corpus.check()
        return corpus

    def check(self) -> None:
        """Raise a Problem if a file is not as it was written: all of them are read, at the speed of sha256."""
        try:
            check_entries(self.folder, read_checked_json(self.folder / FACTS)[FILES])
        except Problem as problem:
            raise Problem(f"{problem} {ANEW}") from None

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        facts = self.facts
        if facts.bytes:
            return [
                f"{facts.bytes:,} bytes, {facts.words:,} words, {facts.tokens:,} tokens "
                f"({facts.unknown / facts.tokens:.2%} unknown); shards: {len(self._shards)}",
                *unknown_warnings(facts.unknown / facts.tokens, "the text"),
            ]
        return [
            f"{facts.documents:,} documents, {facts.sentences:,} sentences, {facts.tokens:,} tokens "
            f"({facts.unknown / facts.tokens:.2%} unknown); shards: {len(self._shards)}",
            *(f"warning: {warning}" for warning in self.warnings()),
        ]

    def warnings(self) -> list[str]:
        facts = self.facts
        brief, unknown = facts.tokens / facts.documents, facts.unknown / facts.tokens
        found = {
            "the text is one document: put a blank line between documents, or give several files": facts.documents == 1,
            f"documents have {brief:.0f} tokens on average: a blank line ends one; lines need none": brief < BRIEF,
            f"{unknown:.1%} of the pieces are unknown: use a vocabulary of such text": unknown > UNKNOWN,
            f"{facts.tokens:,} tokens are few to pretrain on: they will be learned by heart": facts.tokens < SMALL,
        }
        return [warning for warning, holds in found.items() if holds]

    def ids(self, first: int, after: int) -> np.ndarray:
        """The tokens from one on and up to another."""
        shard, at = divmod(first, self.facts.shard)
        found = self._shards[shard][at : at + after - first]
        missing = after - first - len(found)  # a stretch may go on in the next shard
        return found if missing == 0 else np.concatenate([found, self.ids(after - missing, after)])


class Growing:
    """An .npy file that is written piece by piece: numpy leaves room in the header for a larger count."""

    def __init__(self, path: Path, kind: str):
        self.kind, self.count = np.dtype(kind), 0
        self._file = open(path, "xb")  # noqa: SIM115
        self._head()

    def append(self, values: np.ndarray) -> None:
        self._file.write(values.astype(self.kind).tobytes())
        self.count += len(values)

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._head()
            self._file.flush()
            os.fsync(self._file.fileno())

    def _head(self) -> None:
        header = {"descr": npy.dtype_to_descr(self.kind), "fortran_order": False, "shape": (self.count,)}
        npy.write_array_header_1_0(self._file, header)


class Writer:
    """Writes the sentences of documents as they come."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, shard: int):
        self.kind: Literal["uint16", "uint32"] = "uint16" if tokenizer.size <= 2**16 else "uint32"
        self.folder, self.shard = folder, shard
        self.tokens = self.unknown = self.shards = self.words = self.bytes = 0
        self.unknown_bytes: int | None = None
        self._unknown = unknown_ids(tokenizer)
        self._document = -1  # the one that was written last
        self._ids = self._next_shard()
        self._sentences, self._documents = (Growing(folder / name, "int64") for name in (SENTENCES, DOCUMENTS))

    def add(self, documents: Sequence[int], rows: Sequence[list[int]]) -> None:
        """Sentences as ids, each with the number of its document.  Those without ids are left out."""
        full = [number for number, row in enumerate(rows) if row]
        if full:
            sentences = Ragged.of([rows[number] for number in full])
            numbers = np.array([documents[number] for number in full])
            begins = np.flatnonzero(np.diff(numbers, prepend=self._document))
            self._documents.append(self._sentences.count + begins)
            self._sentences.append(self.tokens + sentences.offsets[:-1])
            self._append(sentences.ids)
            self._document = int(numbers[-1])

    def end(self, mark: str) -> Facts:
        """Write where the last sentence and the last document end; how much there was."""
        counts = self.tokens, self.unknown, self._sentences.count, self._documents.count, self.words, self.bytes
        self._documents.append(np.array([self._sentences.count]))
        self._sentences.append(np.array([self.tokens]))
        return Facts(mark, self.kind, self.shard, *counts, unknown_bytes=self.unknown_bytes)

    def close(self) -> None:
        for file in (self._ids, self._sentences, self._documents):
            file.close()

    def _append(self, ids: np.ndarray) -> None:
        self.tokens += len(ids)
        self.unknown += int(np.isin(ids, self._unknown).sum())
        while len(ids) > (room := self.shard - self._ids.count):
            self._ids.append(ids[:room])
            self._ids.close()
            self._ids, ids = self._next_shard(), ids[room:]
        self._ids.append(ids)

    def _next_shard(self) -> Growing:
        self.shards += 1
        return Growing(self.folder / _name(self.shards - 1), self.kind)


def _write(documents: Iterable[Iterable[str]], tokenizer: Tokenizer, folder: Path, mark: str, shard: int) -> None:
    with closing(Writer(folder, tokenizer, shard)) as writer:
        for numbers, texts in _together(documents):
            writer.add(numbers, tokenizer.encode_batch(texts))
        facts = writer.end(mark)
    if not facts.tokens:
        raise Problem("there is no text to pretrain on: all lines of the files are blank")
    write_facts(folder, facts)


def _write_whole(texts: Iterable[Text], tokenizer: Tokenizer, folder: Path, mark: str, shard: int) -> None:
    encoder = LineEncoder(tokenizer)
    with closing(Writer(folder, tokenizer, shard)) as writer:
        unknown_bytes = 0
        for text in texts:
            before = writer.unknown
            writer.add([text.document], [encoder(text)])
            writer.words, writer.bytes = writer.words + text.words, writer.bytes + text.bytes
            if writer.unknown > before:
                parts = encoder.unknown(text)
                writer.unknown, unknown_bytes = before + len(parts), unknown_bytes + sum(map(size_of, parts))
        writer.unknown_bytes = unknown_bytes
        facts = writer.end(mark)
    if not facts.tokens:
        raise Problem("there is no text to learn from: the files are empty")
    write_facts(folder, facts)


def write_facts(folder: Path, facts: Facts) -> None:
    """Last of all, with the sizes and hashes of what was written before."""
    names = sorted(path.name for path in folder.glob("*.npy"))
    write_checked_json(folder / FACTS, {**to_dict(facts), FILES: file_entries(folder, names)})


def size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def unknown_warnings(share: float, what: str) -> list[str]:
    """A warning, if more than a few percent of the tokens of some text are unknown."""
    told = f"warning: {share:.1%} of the tokens of {what} are unknown: use a vocabulary of such text, or a larger one"
    return [told] if share > UNKNOWN_WORDS else []


def _together(documents: Iterable[Iterable[str]]) -> Iterator[tuple[list[int], list[str]]]:
    """Sentences in bundles, each with the number of its document."""
    numbers, texts, size = list[int](), list[str](), 0
    for number, text in _sentences(documents):
        numbers.append(number)
        texts.append(text)
        size += len(text)
        if size >= TOGETHER:
            yield numbers, texts
            numbers, texts, size = [], [], 0
    yield numbers, texts


def _sentences(documents: Iterable[Iterable[str]]) -> Iterator[tuple[int, str]]:
    """Each sentence with the space before it, by which some vocabularies know the beginning of a word."""
    for number, document in enumerate(documents):
        space = ""
        for paragraph in document:
            for sentence in sentences(space + paragraph.strip()):
                yield number, sentence
            space = " "


def _fingerprint(
    paths: Sequence[str | Path], tokenizer: Tokenizer, encoding: str, column: str | None, whole: bool
) -> str:
    pieces = json.loads(tokenizer.to_json()) | {
        "post_processor": None
    }  # what it puts around a text is not in the corpus
    how = [VERSION, fingerprint(paths), [kind_of(path) for path in paths], pieces, encoding, column]
    how += ["whole"] * whole
    return hashlib.sha256(json.dumps(how).encode()).hexdigest()


def _name(shard: int) -> str:
    return f"{shard:05}.ids.npy"


def _mapped(path: Path, kind: str, size: int) -> np.ndarray:
    try:
        found = np.load(path, mmap_mode="r").view(np.ndarray)
    except (OSError, ValueError, EOFError, SyntaxError, TokenError) as error:  # a header is parsed as Python's literals
        raise _damaged(path, error) from error
    if found.dtype != kind or found.shape != (size,):
        raise _damaged(path, f"it holds {found.shape} {found.dtype} where ({size},) {kind} were written")
    return found


def _damaged(path: Path, why: object) -> Problem:
    return Problem(f"{path} is damaged ({why}). {ANEW}")


@contextmanager
def _coming(folder: Path) -> Iterator[Path]:
    """A folder to write in that gets its name when it is whole; what a kill left of an earlier one is removed."""
    for leftover in folder.parent.glob(f".{escape(folder.name)}{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = folder.with_name(f".{folder.name}{PARTIAL}{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(folder)
    except OSError as error:
        raise Problem(
            f"{folder} could not be written: {error.strerror or error}. Encoded text takes about half the space of the "
            "text itself. Free some there, or choose a folder on another disk."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
