"""Batches for pretraining: rows of neighbouring sentences, alone or as pairs (Devlin et al. 2019, Lan et al. 2020)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from regard.data.batches import Order, rows_of, tensor_of
from regard.data.corpus import Corpus
from regard.errors import Problem, UsageProblem
from regard.rows import Tokens
from regard.text.frame import Frame

Pairs = Literal["none", "next", "order"]
SHORTEST = 8  # pieces of a row worth learning from
BLOCK = 2**20  # sentences that are packed at once
DRAWS = 8  # strangers of which the one that fits best is taken, so that its length does not give it away
STREAM = 1  # keeps what is drawn for a position apart from what orders an epoch of that number


class CorpusBatches(Order):
    """Batches of rows, each of as many neighbouring sentences of a document as fit.  Very short ones are left out.

    For pairs a row is split where a sentence begins.  Then in half of the rows the second part gives way to a stranger,
    sentences of another document ("next"), or the two change places ("order").  Which rows and where is drawn anew for
    every position, so that no epoch repeats another.
    """

    def __init__(self, corpus: Corpus, frame: Frame, longest: int, budget: int, seed: int, pairs: Pairs = "none"):
        if pairs not in get_args(Pairs):
            raise UsageProblem(f"no pairs are called {pairs!r}; choose one of {', '.join(get_args(Pairs))}")
        if pairs == "next" and corpus.facts.documents == 1:
            raise Problem("next-sentence pairs need two documents or more; put a blank line between documents")
        special = len(frame.first) + len(frame.last) + (len(frame.between) if pairs != "none" else 0)
        if longest < special + SHORTEST:
            raise UsageProblem(f"rows of {longest} are too short; ask for {special + SHORTEST} tokens or more")
        every = pack(corpus, longest - special)
        sizes = every[:, 1] - every[:, 0]
        self.corpus, self.frame, self.longest, self.pairs = corpus, frame, longest, pairs
        self.stretches = every[sizes >= SHORTEST]  # (B, 2) the first token of each row, and the one after its last
        self.left_out = len(every) - len(self.stretches)
        if not len(self.stretches):
            raise Problem(f"no document has {SHORTEST} pieces, the fewest of a row. Give longer text.")
        super().__init__(sizes[sizes >= SHORTEST] + special, budget, seed)

    def __len__(self) -> int:
        return len(self.stretches)

    def lines(self) -> list[str]:
        """What an epoch is, as text."""
        return [
            f"{len(self):,} rows of at most {self.longest} tokens, {self._costs.mean():.0f} on average; "
            f"left out: {self.left_out:,} of under {SHORTEST} pieces"
        ]

    def at(self, position: int) -> dict[str, Any]:
        """The batch at a position: its tokens, the segment of each, and for pairs what the second part of each row is:
        what follows the first (0), or a stranger or what goes before it (1)."""
        stretches = self.stretches[self.numbers_at(position)]
        if self.pairs == "none":
            return self._framed(stretches[:, None])
        draw = np.random.default_rng([self.seed, position, STREAM])
        middle = self._middle(stretches, draw)
        parts = np.stack([stretches[:, 0], middle, middle, stretches[:, 1]], 1).reshape(-1, 2, 2)
        changed = draw.random(len(parts)) < 0.5
        if self.pairs == "order":
            parts[changed] = parts[changed, ::-1]
        else:
            parts[changed, 1] = self._strangers(parts[changed, 1], draw)
        return self._framed(parts) | {"second": tensor_of(changed)}

    def _middle(self, stretches: np.ndarray, draw: np.random.Generator) -> np.ndarray:  # (B, 2) -> (B,)
        """Where the second part begins: at any sentence but the first; in the midst of a sentence that is alone."""
        sentences = self.corpus.sentences
        low = np.searchsorted(sentences, stretches[:, 0], "right")
        high = np.searchsorted(sentences, stretches[:, 1], "left")
        chosen = draw.integers(low, np.maximum(high, low + 1))
        return np.where(low < high, sentences[chosen], stretches.sum(1) // 2)

    def _strangers(self, parts: np.ndarray, draw: np.random.Generator) -> np.ndarray:  # (B, 2) -> (B, 2)
        """For each part whole sentences of any other document, which are no longer; the first from its midst, if the
        part begins so.  Where none of those that were drawn fits, one is cut."""
        sentences, documents = self.corpus.sentences, self.corpus.documents
        room = (parts[:, 1] - parts[:, 0])[:, None]
        sentence = np.searchsorted(sentences, parts[:, 0], "right") - 1  # that a part begins in
        midst = (sentences[sentence] < parts[:, 0])[:, None]
        own = np.searchsorted(documents, sentence, "right") - 1
        begin, size = documents[own, None], (documents[own + 1] - documents[own])[:, None]
        drawn = draw.integers(0, len(sentences) - 1 - size, (len(parts), DRAWS))
        drawn += size * (drawn >= begin)  # so that none is of the part's own document
        first = np.where(midst, (sentences[drawn] + sentences[drawn + 1]) // 2, sentences[drawn])  # (B, DRAWS)
        limit = np.minimum(first + room, sentences[documents[np.searchsorted(documents, drawn, "right")]])
        whole = sentences[np.searchsorted(sentences, limit, "right") - 1]
        best = (whole - first).argmax(1)[:, None]
        after = np.where(whole > first, whole, limit)
        return np.concatenate([np.take_along_axis(some, best, 1) for some in (first, after)], 1)

    def _framed(self, parts: np.ndarray) -> dict[str, Any]:  # (B, 1 or 2, 2)
        count, frame = parts.shape[1], self.frame
        first, between, last = (np.array(some, np.int64) for some in (frame.first, frame.between, frame.last))
        pieces: list[np.ndarray] = []
        for row in parts.tolist():
            for before, stretch in zip((first, between), row, strict=False):
                pieces += before, self.corpus.ids(*stretch)
            pieces.append(last)
        extra = [len(first) + len(last)] if count == 1 else [len(first) + len(between), len(last)]
        lengths = parts[:, :, 1] - parts[:, :, 0] + extra  # (B, 1 or 2)
        types = np.tile(np.arange(count) * frame.segments, len(parts)).repeat(lengths.ravel())
        ids = np.concatenate(pieces, dtype=np.int64)
        return {"tokens": Tokens(tensor_of(ids), rows_of(lengths.sum(1))), "types": tensor_of(types)}


class InTurn:
    """Batches of one kind up to a position, and then of another: short rows first, say, and long ones at the end."""

    def __init__(self, first: CorpusBatches, then: CorpusBatches, switch: int):
        if switch < 0:
            raise UsageProblem(f"batches cannot change at position {switch}; give 0 or more")
        self.first, self.then, self.switch = first, then, switch

    def lines(self) -> list[str]:
        return [*self.first.lines(), *self.then.lines()]

    def at(self, position: int) -> dict[str, Any]:
        return self.first.at(position) if position < self.switch else self.then.at(position - self.switch)

    def epoch_of(self, position: int) -> tuple[int, int]:
        """The epochs of the second kind are counted on from those of the first."""
        if position < self.switch:
            return self.first.epoch_of(position)
        before = self.first.epoch_of(self.switch - 1)[0] + 1 if self.switch else 0
        epoch, index = self.then.epoch_of(position - self.switch)
        return before + epoch, index


def pack(corpus: Corpus, room: int) -> np.ndarray:  # (B, 2)
    """Stretches of at most `room` tokens that together are the corpus: the first token of each, and the one after its
    last.  Each takes in as many sentences of a document as it can; a longer sentence is cut."""
    starts = np.searchsorted(corpus.documents, np.arange(0, corpus.facts.sentences, BLOCK))
    cuts = np.unique([*starts, corpus.facts.documents]).tolist()
    parts = []
    for start, end in pairwise(cuts):
        documents = corpus.documents[start : end + 1]
        begins = corpus.sentences[documents[0] : documents[-1] + 1]
        parts.append(_packed(begins, corpus.sentences[documents[1:]], room))
    return np.concatenate(parts)


def _packed(begins: np.ndarray, ends: np.ndarray, room: int) -> np.ndarray:
    """`begins` are the sentences' first tokens and the end of the last; `ends`, those of the documents."""
    begins = _cut(begins, room)
    limits = np.minimum(begins[:-1] + room, ends[np.searchsorted(ends, begins[:-1], "right")])
    after = np.searchsorted(begins, limits, "right") - 1  # where a stretch that began at this sentence would end
    following, at, chosen = after.tolist(), 0, list[int]()
    while at < len(following):
        chosen.append(at)
        at = following[at]
    return np.stack([begins[chosen], begins[after[chosen]]], 1)


def _cut(begins: np.ndarray, room: int) -> np.ndarray:
    """Sentences that have no room are several."""
    counts = -(-np.diff(begins) // room)
    firsts = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) - firsts.repeat(counts)
    return np.append(begins[:-1].repeat(counts) + places * room, begins[-1])
