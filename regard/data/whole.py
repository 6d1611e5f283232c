"""Text as it stands, spaces and lines kept: what language models read, and are measured on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.documents import kind_of, read_documents
from regard.data.lines import read_lines
from regard.errors import UsageProblem
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import UNKNOWNS, unknown_ids

TOGETHER = 2**18  # characters of a block


@dataclass(frozen=True)
class Text:
    """Some lines of a document, each with its end; or a whole document, after which another begins."""

    lines: list[str]
    document: int
    ends: bool = False

    @property
    def words(self) -> int:
        """What stands between spaces; the end of a line counts as one, as in the tables of Mikolov (2010)."""
        return sum(len(line.split()) + line.endswith("\n") for line in self.lines)

    @property
    def bytes(self) -> int:
        return sum(len(line.encode("utf-8", "surrogatepass")) for line in self.lines)


def whole_texts(paths: Iterable[str | Path], encoding: str = "utf-8", column: str | None = None) -> Iterator[Text]:
    """Plain text in blocks of lines; JSON lines and Parquet a document at a time."""
    number = 0
    for path in paths:
        if kind_of(path) != "text":
            for document in read_documents([path], encoding, column):
                yield Text([f"{line}\n" for line in document], number, ends=True)
                number += 1
        elif column is not None:
            raise UsageProblem(f"{path} is read as plain text, which has no column {column!r}; leave it out")
        else:
            yield from (Text(lines, number) for lines in blocks(read_lines(path, encoding)))
            number += 1


def blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines with their ends, until there are many characters."""
    block, size = list[str](), 0
    for line in lines:
        block.append(f"{line}\n")
        size += len(line) + 1
        if size >= TOGETHER:
            yield block
            block, size = [], 0
    if block:
        yield block


class LineEncoder:
    """Text to ids with its lines: by the vocabulary's own pieces, or where it has none for the end of a line (as words
    and word pieces have none) by its end token."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.keeps_lines = tokenizer.decode(tokenizer.encode("\n")) == "\n"

    def __call__(self, text: Text) -> list[int]:
        last = [self.tokenizer.end] if text.ends else []
        if self.keeps_lines:
            return self.tokenizer.encode("".join(text.lines)) + last
        rows = self.tokenizer.encode_batch(self.texts(text))
        return [id for row in rows for id in (*row, self.tokenizer.end)] + last

    def texts(self, text: Text) -> list[str]:
        """What is encoded at once: the block, or each of its lines without its end."""
        return ["".join(text.lines)] if self.keeps_lines else [line.removesuffix("\n") for line in text.lines]

    def unknown(self, text: Text) -> list[str]:
        """The parts of a text that are read as unknown.  Text that spells the unknown token itself, as prepared corpora
        do, is none of them: what is read is what stands there."""
        ids, texts = unknown_ids(self.tokenizer), self.texts(text)
        if not ids:
            return []
        return [
            part
            for given, (row, spans) in zip(texts, self.tokenizer.encode_spans_batch(texts), strict=True)
            for id, (begin, end) in zip(row, spans, strict=True)
            if id in ids and (part := given[begin:end]) not in UNKNOWNS
        ]
