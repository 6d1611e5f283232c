"""What parallel text is like: its size, lengths, duplicates and coverage, told before anything is trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.parallel import Encoded, Parallel, Ragged
from regard.text.vocabulary import Vocabulary

MANY = 0.05  # the share from which on what is lost, unknown or double deserves a warning


@dataclass(frozen=True)
class Spread:
    """Lengths: the median, the one that 95% do not exceed, the greatest."""

    median: int
    most: int
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int] | np.ndarray) -> Spread:
        return cls(*(int(value) for value in np.percentile(lengths, (50, 95, 100), method="inverted_cdf")))


@dataclass(frozen=True)
class Side:
    characters: Spread
    words: Spread
    pieces: Spread  # of the pairs that are kept
    total: int  # pieces
    unknown: float  # the share of pieces that the tokenizer does not know

    @classmethod
    def of(cls, texts: Sequence[str], rows: Ragged, tokenizer: Vocabulary, extra: int) -> Side:
        """`extra` is how many ids of a row are no pieces of its text."""
        lengths = rows.lengths - extra
        total = int(lengths.sum())
        spreads = Spread.of([len(t) for t in texts]), Spread.of([len(t.split()) for t in texts]), Spread.of(lengths)
        return cls(*spreads, total, float((rows.ids == tokenizer.unknown).sum()) / total)


@dataclass(frozen=True)
class Overlap:
    """How much of a held-out text was in the training text."""

    name: str
    pairs: int
    sources: int  # that are a training source
    both: int  # pairs that are a training pair


@dataclass(frozen=True)
class Description:
    pairs: int
    empty: int
    overlong: int
    longest: int  # pieces a side may have
    duplicates: int  # pairs that occurred before
    source: Side
    target: Side
    overlaps: tuple[Overlap, ...]

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        return [
            f"{self.pairs:,} pairs; left out: {self.empty:,} with an empty side, "
            f"{self.overlong:,} of over {self.longest} pieces; {self.duplicates:,} occurred before",
            f"{'':20}{'median':>8}{'95%':>8}{'longest':>8}",
            *_table("source", self.source),
            *_table("target", self.target),
            *(f"{o.name}: {o.pairs:,} pairs, {o.both:,} of them in the training text" for o in self.overlaps),
            *(f"warning: {warning}" for warning in self.warnings()),
        ]

    def warnings(self) -> list[str]:
        lost, sides = self.empty + self.overlong, {"source": self.source, "target": self.target}
        shares = {
            "of the pairs are left out of training: look at them, or allow longer ones": lost / self.pairs,
            "of the training pairs occurred before": self.duplicates / self.pairs,
        } | {f"of the {name} pieces are unknown: use a larger vocabulary": side.unknown for name, side in sides.items()}
        flattered = [_flattered(overlap) for overlap in self.overlaps if overlap.sources]
        return flattered + [f"{share:.0%} {what}" for what, share in shares.items() if share > MANY]


def describe_parallel(
    train: Parallel, encoded: Encoded, dev: Parallel, test: Parallel | None, source: Vocabulary, target: Vocabulary
) -> Description:
    """What training on this text, encoded by these tokenizers, will see; and what dev and test share with it."""
    pairs = set(zip(train.sources, train.targets, strict=True))
    held_out = {"dev": dev} | ({"test": test} if test else {})
    return Description(
        pairs=len(train),
        empty=encoded.empty,
        overlong=encoded.overlong,
        longest=encoded.longest,
        duplicates=len(train) - len(pairs),
        source=Side.of(train.sources, encoded.source, source, extra=1),
        target=Side.of(train.targets, encoded.target, target, extra=0),
        overlaps=tuple(_overlap(name, text, set(train.sources), pairs) for name, text in held_out.items()),
    )


def _overlap(name: str, text: Parallel, sources: set[str], pairs: set[tuple[str, str]]) -> Overlap:
    both = sum(pair in pairs for pair in zip(text.sources, text.targets, strict=True))
    return Overlap(name, len(text), sum(line in sources for line in text.sources), both)


def _table(name: str, side: Side) -> list[str]:
    rows = {"characters": side.characters, "words": side.words, "pieces": side.pieces}
    lines = [f"{f'{name} {unit}':20}{s.median:8,}{s.most:8,}{s.longest:8,}" for unit, s in rows.items()]
    return [*lines[:-1], f"{lines[-1]}   {side.total:,} in all, {side.unknown:.2%} unknown"]


def _flattered(overlap: Overlap) -> str:
    share = f"{overlap.sources:,} of {overlap.pairs:,} sources ({overlap.sources / overlap.pairs:.1%})"
    return f"{overlap.name}: {share} are in the training text, {overlap.both:,} as the same pair; scores may flatter"
