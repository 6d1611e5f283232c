"""Text as the ids of its words, the most frequent word first, rare ones left out (as word2vec has it)."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category, normalize

import numpy as np

from regard.data.documents import read_documents
from regard.data.parallel import Ragged
from regard.errors import Problem, UsageProblem

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # letters and digits, with apostrophes inside
MARKS = "".join(sign for sign in map(chr, range(0x300, 0x10000)) if category(sign) in ("Mn", "Mc"))
MARK = re.compile(f"[{MARKS}]")  # a part of a letter, such as a vowel of Hindi
MARKED = re.compile(WORD.pattern.replace(r"[^\W_]", rf"(?:[^\W_]|[{MARKS}])"))  # slower, and so for such text only


@dataclass(frozen=True)
class Cut:
    """How words are found in a text, and which of them count."""

    lowercase: bool = True
    spaces: bool = False  # words are what spaces separate; else letters and digits that stand together
    least: int = 5  # times that a word must occur
    most: int = 0  # words that are kept, the most frequent ones; 0: all

    def __post_init__(self) -> None:
        if self.least < 1 or self.most < 0:
            raise UsageProblem(f"least={self.least}, most={self.most}: give 1 or more, and 0 (all) or more")

    def words(self, text: str) -> list[str]:
        text = normalize("NFC", text.lower() if self.lowercase else text)
        if self.spaces:
            return text.split()
        return (WORD if text.isascii() or not MARK.search(text) else MARKED).findall(text)


@dataclass(frozen=True, eq=False)
class WordText:
    words: list[str]  # V of them
    counts: np.ndarray  # (V,) int64: how often each occurs
    lines: Ragged  # of ids
    total: int  # words of the text, rare ones among them


def read_words(paths: Iterable[str | Path], cut: Cut, encoding: str = "utf-8", column: str | None = None) -> WordText:
    """The words of files (see read_documents), line by line.  The text is read once."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word has the next number
    ids, lengths = array("i"), array("q")
    for document in read_documents(paths, encoding, column):
        for line in document:
            before = len(ids)
            ids.extend(map(numbers.__getitem__, cut.words(line)))
            lengths.append(len(ids) - before)
    if not ids:
        raise Problem("there is no word in the text: all lines of the files are blank, or have signs alone")
    return _renumbered(list(numbers), np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64), cut)


def _renumbered(words: list[str], ids: np.ndarray, lengths: np.ndarray, cut: Cut) -> WordText:
    """The same with ids by falling frequency, and without rare words."""
    counts = np.bincount(ids, minlength=len(words))
    order = np.argsort(-counts, kind="stable")
    order = order[: np.searchsorted(-counts[order], -cut.least, "right")][: cut.most or None]
    if not len(order):
        often = counts.max()
        raise Problem(
            f"of {len(words):,} words none occurs {cut.least} times, the most frequent {often:,} times. "
            "Give more text, or keep rarer words (--min-count)."
        )
    new = np.full(len(words), -1, np.int32)
    new[order] = np.arange(len(order))
    ids = new[ids]
    kept = ids >= 0
    ends = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.concatenate([[0], np.cumsum(kept)])[ends]
    return WordText([words[id] for id in order], counts[order], Ragged(ids[kept], offsets), len(ids))
