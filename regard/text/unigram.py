"""Learning the pieces of a unigram language model (Kudo 2018) as a function of the counted words.

The trainer of the `tokenizers` library sums in the order of a hash map, which differs from process to process, and the
pieces it learns differ too.  Here words are sorted, sums have one order, and what is equal is ordered by its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from regard.text.lattice import Lattice

MAX_PIECE_LENGTH = 16  # characters
MAX_WORD_LENGTH = 256  # characters; longer words are learned from in parts
MAX_CHARACTERS = 4_000_000  # of different words, the most frequent first; they take about 3 GB of memory
MAX_SEEDS = 500_000
EM_STEPS = 2  # before each pruning
SHRINKING = 0.75  # the share of the pieces that a pruning keeps
SURPLUS = 1.1  # the last pruning keeps so many times the pieces that are asked for
RARE = 0.5  # a piece that is expected less often is dropped
DIGITS = 6  # of a score's fraction


@dataclass(frozen=True)
class CountedWords:
    """Different words laid end to end, the most frequent first, and how often each was found."""

    text: str
    codes: np.ndarray  # (N,) the characters of the text, numbered in the order of Unicode
    sizes: np.ndarray  # (B,) the characters of each word
    counts: np.ndarray  # (B,)

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> CountedWords:
        characters: Counter[str] = Counter()
        for word, count in counts.items():
            characters.update(dict.fromkeys(word, count))
        chosen: list[tuple[str, int]] = []
        room = MAX_CHARACTERS
        for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            room -= len(word)
            if room < 0:
                break
            parts = range(0, len(word), MAX_WORD_LENGTH)
            chosen += [(word[start : start + MAX_WORD_LENGTH], count) for start in parts]
        missing = characters.keys() - set("".join(word for word, _ in chosen))
        chosen += [(character, characters[character]) for character in sorted(missing)]
        text = "".join(word for word, _ in chosen)
        _, codes = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
        sizes, numbers = (np.array(some) for some in ([len(word) for word, _ in chosen], [many for _, many in chosen]))
        return cls(text, codes, sizes, numbers)


@dataclass(frozen=True)
class UnigramPieces:
    """Substrings of the words' text, by length and then by text, with their logarithmic probabilities."""

    at: np.ndarray  # (P,) where the first of each begins in the text
    length: np.ndarray  # (P,)
    score: np.ndarray  # (P,)

    def choose(self, kept: np.ndarray) -> UnigramPieces:
        return UnigramPieces(self.at[kept], self.length[kept], self.score[kept])


@dataclass(frozen=True)
class UnigramModel:
    """UnigramPieces, every way to cut the words into them, and every way to cut each piece into others."""

    pieces: UnigramPieces
    words: Lattice
    inside: Lattice
    counts: np.ndarray  # (B,) of the words

    def choose(self, kept: np.ndarray) -> UnigramModel:
        words, inside = self.words.choose(kept), self.inside.choose(kept, kept)
        return UnigramModel(self.pieces.choose(kept), words, inside, self.counts)


def learn_unigram(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their logarithmic probabilities, the most probable first; more only if the words have
    more different characters, for each of these is a piece."""
    words = CountedWords.of(counts)
    model = _seeded(words)
    while True:
        for _ in range(EM_STEPS):
            model = _maximized(model)
        if len(model.pieces.at) <= SURPLUS * size:
            break
        kept = _worth_keeping(model, size)
        if kept.all():
            break
        model = model.choose(kept)
    return _ranked(words.text, model.pieces, size)


def _seeded(words: CountedWords) -> UnigramModel:
    """The model to begin with: of all substrings, with probabilities by how much text each would cover."""
    pieces, table = _seeds(words)
    at, lengths = np.nonzero(table >= 0)
    first = np.cumsum(words.sizes) - words.sizes  # (B,) where each word begins
    word = np.repeat(np.arange(len(words.sizes)), words.sizes)  # (N,) which word a character is of
    lattice = Lattice.of(word[at], at - first[word[at]], lengths + 1, table[at, lengths], words.sizes)
    return UnigramModel(pieces, lattice, _inside(pieces, table), words.counts)


class Substrings(NamedTuple):
    """The different substrings of one length, in the order of their text."""

    first: np.ndarray  # (S,) where the first of each begins
    places: np.ndarray  # (S,) in how many places of the words each begins
    frequency: np.ndarray  # (S,) how often it occurs: each place as often as its word
    kept: np.ndarray  # (S,) whether it is to be a piece


def _seeds(words: CountedWords) -> tuple[UnigramPieces, np.ndarray]:
    """All characters, and the substrings in two places or more that are not always part of the same longer one; and
    which piece begins at each character with each length (N, L), or -1."""
    weight = np.repeat(words.counts, words.sizes)  # (N,)
    rest = np.repeat(np.cumsum(words.sizes), words.sizes) - np.arange(len(words.codes))  # (N,) to the word's end
    table = np.full((len(words.codes), MAX_PIECE_LENGTH), -1, np.int32)
    here, keys = np.arange(len(words.codes)), words.codes
    found: list[Substrings] = []  # of each length
    for length in range(1, MAX_PIECE_LENGTH + 1):
        if found:
            here = here[(found[-1].places[table[here, length - 2]] > 1) & (rest[here] >= length)]
            keys = table[here, length - 2].astype(np.int64) * len(found[0].first) + words.codes[here + length - 1]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        first, places, count = here[first], np.bincount(which), np.bincount(which, weight[here])
        for shift in (0, 1) if length > 2 else ():
            part = table[first + shift, length - 2]
            found[-1].kept[part[found[-1].places[part] == places]] = False  # it is always part of this longer one
        table[here, length - 1] = which
        found.append(Substrings(first, places, count, (places > 1) | (length == 1)))
    return _numbered(found, table)


def _numbered(found: list[Substrings], table: np.ndarray) -> tuple[UnigramPieces, np.ndarray]:
    """The pieces that are kept, and the table with their numbers in place of those among equally long substrings."""
    at, _, count, kept = (np.concatenate(some) for some in zip(*found, strict=True))
    length = np.repeat(np.arange(len(found)) + 1, [len(some.first) for some in found])
    covered = count * length  # characters
    order = np.argsort(-np.where(length == 1, np.inf, covered * kept), kind="stable")
    kept[order[max(MAX_SEEDS, len(found[0].first)) :]] = False
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    begin = 0
    for column, some in enumerate(found):
        known = table[:, column] >= 0
        table[known, column] = number[begin + table[known, column]]
        begin += len(some.first)
    return UnigramPieces(at[kept], length[kept], np.log(covered[kept] / covered[kept].sum())), table


def _inside(pieces: UnigramPieces, table: np.ndarray) -> Lattice:
    """The ways to cut each piece into others."""
    edges = []
    for length in range(1, MAX_PIECE_LENGTH):
        for at in range(MAX_PIECE_LENGTH + 1 - length):
            text = np.flatnonzero((pieces.length >= at + length) & (pieces.length > length))
            piece = table[pieces.at[text] + at, length - 1]
            text, piece = text[piece >= 0], piece[piece >= 0]
            edges.append((text, np.full_like(text, at), np.full_like(text, length), piece))
    text, start, size, piece = (np.concatenate(some) for some in zip(*edges, strict=True))
    return Lattice.of(text, start, size, piece, pieces.length)


def _maximized(model: UnigramModel) -> UnigramModel:
    """A step of expectation-maximization, with the digamma function of counts in place of counts: few pieces stay
    probable.  Characters are kept however rare they are."""
    expected = model.words.expected_counts(model.pieces.score, model.counts)
    kept = (expected >= RARE) | (model.pieces.length == 1)
    fewer, expected = model.choose(kept), np.maximum(expected[kept], RARE)
    score = _digamma(expected) - _digamma(expected.sum(keepdims=True))
    return replace(fewer, pieces=replace(fewer.pieces, score=score))


def _worth_keeping(model: UnigramModel, size: int) -> np.ndarray:
    """Which pieces (P,) to keep: characters, and those without which the text would become most improbable."""
    pieces, words, inside = model.pieces, model.words, model.inside
    used = words.best(pieces.score)
    frequency = np.bincount(words.piece[used], model.counts[words.text[used]], len(pieces.at))  # (P,)
    instead = inside.best(pieces.score) & (frequency[inside.text] > 0)
    owner, other = inside.text[instead], inside.piece[instead]
    number = np.bincount(owner, minlength=len(pieces.at))  # (P,) of others that stand for a piece that is dropped
    total, found = frequency.sum(), np.maximum(frequency, 1)
    without = np.bincount(owner, np.log(frequency[other] + found[owner]), len(pieces.at))
    without = without - number * np.log(total + found * np.maximum(number - 1, 0))
    loss = found * (np.log(found / total) - without)
    kept = pieces.length == 1
    candidates = np.flatnonzero(~kept & (frequency > 0))
    # in few digits, so that what differs by rounding alone is equal, and stays in the order of the pieces
    order = np.argsort(-loss[candidates].astype(np.float32), kind="stable")
    most = max(int(size * SURPLUS), int(len(kept) * SHRINKING)) - int(kept.sum())
    kept[candidates[order[: max(most, 0)]]] = True
    return kept


def _ranked(text: str, pieces: UnigramPieces, size: int) -> list[tuple[str, float]]:
    spans = zip(pieces.at.tolist(), pieces.length.tolist(), pieces.score.tolist(), strict=True)
    ranked = sorted((-round(score, DIGITS), text[at : at + length]) for at, length, score in spans)
    room = size - sum(len(piece) == 1 for _, piece in ranked)
    longer = [piece for _, piece in ranked if len(piece) > 1]
    dropped = set(longer[max(room, 0) :])
    return [(piece, -score) for score, piece in ranked if piece not in dropped]


def _digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of the logarithm of the gamma function (Bernardo 1976), of positive numbers."""
    shift = sum(1 / (x + step) for step in range(6))
    x = x + 6
    square = 1 / (x * x)
    return np.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252)) - shift
