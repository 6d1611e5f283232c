"""Parallel text: a file of sources and a file of their translations, line by line; and the same as ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from regard.data.lines import read_lines
from regard.data.split import ExampleKey, label_strata, plain_text
from regard.errors import Problem
from regard.text.vocabulary import Vocabulary

TOGETHER = 10_000  # pairs encoded at once, so that lists of Python numbers never fill the memory
BREAKS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")  # where some programs end a line; regard does not


@dataclass(frozen=True)
class Parallel:
    sources: list[str]
    targets: list[str]
    source: str = field(default="", compare=False)  # where they are from

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, number: int) -> tuple[str, str]:
        return self.sources[number], self.targets[number]

    def take(self, numbers: Sequence[int], source: str) -> Parallel:
        """The chosen pairs, in that order."""
        sources, targets = ([some[number] for number in numbers] for some in (self.sources, self.targets))
        return Parallel(sources, targets, source)

    def example_keys(self) -> list[ExampleKey]:
        """Where targets are few, as labels that are written out, they are held out in proportion; a pair that lacks a
        side never is."""
        strata = label_strata(self.targets)
        return [
            ExampleKey(
                plain_text([source]), target, stratum, (stratum,), usable=bool(source.strip() and target.strip())
            )
            for source, target, stratum in zip(self.sources, self.targets, strata, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Lists of ids laid end to end."""

    ids: np.ndarray  # (N,) int32
    offsets: np.ndarray  # (B + 1,) int64

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        lengths = np.array([len(row) for row in rows], np.int64)
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(ids, _offsets(lengths))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        return self.ids[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> np.ndarray:  # (B,)
        return np.diff(self.offsets)

    def take(self, numbers: np.ndarray) -> Ragged:
        """The chosen rows, in that order."""
        first = self.offsets[numbers]
        lengths = self.offsets[numbers + 1] - first
        offsets = _offsets(lengths)
        places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
        return Ragged(self.ids[places], offsets)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Pairs as ids.  A source closes with the end token; a target is bare, for a batch shows it in two ways."""

    source: Ragged
    target: Ragged
    empty: int  # pairs left out for want of a side
    overlong: int  # pairs left out for a side that is too long,
    longest: int  # that is, of more pieces than this

    def __len__(self) -> int:
        return len(self.source)

    @property
    def dropped(self) -> int:
        return self.empty + self.overlong


def read_parallel(source: str | Path, target: str | Path, encoding: str = "utf-8") -> Parallel:
    """Two files whose lines belong together; refused when they cannot."""
    sources, targets = list(read_lines(source, encoding)), list(read_lines(target, encoding))
    for path, lines in ((source, sources), (target, targets)):
        if not any(line.strip() for line in lines):
            raise Problem(f"{path} has no text: {len(lines)} lines, all blank. Give a file with a sentence a line.")
    if len(sources) != len(targets):
        raise Problem(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}: line n of one must be the "
            f"translation of line n of the other. {_clue(str(source), sources, str(target), targets)}"
        )
    return Parallel(sources, targets, f"{source} and {target}")


def encode(pairs: Parallel, source: Vocabulary, target: Vocabulary, longest: int) -> Encoded:
    """The ids of all pairs that have text on both sides and at most `longest` pieces on each."""
    kept: list[tuple[Ragged, Ragged]] = []
    empty = overlong = 0
    for sources, targets in _encoded(pairs, source, target):
        lengths = np.array([(len(s), len(t)) for s, t in zip(sources, targets, strict=True)])
        full = lengths.min(1) > 0
        good = np.flatnonzero(full & (lengths.max(1) <= longest))
        kept.append((Ragged.of([[*sources[i], source.end] for i in good]), Ragged.of([targets[i] for i in good])))
        empty += int((~full).sum())
        overlong += int(full.sum()) - len(good)
    if empty + overlong == len(pairs):
        raise Problem(
            f"of {len(pairs):,} pairs none is left: {empty:,} have an empty side, {overlong:,} are longer than "
            f"{longest} pieces. Allow longer ones, or look at the text."
        )
    return Encoded(Ragged.join([s for s, _ in kept]), Ragged.join([t for _, t in kept]), empty, overlong, longest)


def _encoded(
    pairs: Parallel, source: Vocabulary, target: Vocabulary
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    for start in range(0, len(pairs), TOGETHER):
        some = slice(start, start + TOGETHER)
        yield source.encode_batch(pairs.sources[some]), target.encode_batch(pairs.targets[some])


def _clue(source: str, sources: Sequence[str], target: str, targets: Sequence[str]) -> str:
    """Where to look for the line that is too many or too few."""
    name, fewer = (source, sources) if len(sources) < len(targets) else (target, targets)
    for number, line in enumerate(fewer, 1):
        if found := BREAKS.search(line):
            return f"{name}, line {number} holds U+{ord(found[0]):04X}, at which some programs break a line."
    for number, (one, other) in enumerate(zip(sources, targets, strict=False), 1):
        if bool(one.strip()) != bool(other.strip()):
            return f"Look at line {number}, which is blank in one of them only."
    return f"Look for a line that was left out of {name}, or broken in two in the other."


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
