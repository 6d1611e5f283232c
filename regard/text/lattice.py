"""Every way to cut many texts into pieces, as arrays: an edge is a piece between two gaps, a node is a gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Lattice:
    """The edges of all texts, by the depth of their ends and then by their ends, so that one depth is read at once.

    Sums are made in the order of the edges, whatever the number of threads: the same texts give the same bits."""

    text: np.ndarray  # (E,) which text an edge is of
    start: np.ndarray  # (E,) nodes
    end: np.ndarray  # (E,)
    depth: np.ndarray  # (E,) how many characters of its text lie before an edge's end
    piece: np.ndarray  # (E,)
    last: np.ndarray  # (B,) the node at the end of each text

    @classmethod
    def of(cls, text: np.ndarray, at: np.ndarray, length: np.ndarray, piece: np.ndarray, sizes: np.ndarray) -> Lattice:
        """From edges that begin `at` a character of their text and have a length, and the `sizes` (B,) of the texts."""
        last = np.cumsum(sizes + 1) - 1  # (B,)
        start = (last - sizes)[text] + at  # (E,)
        end, depth = start + length, at + length
        order = np.lexsort((length, end, depth))
        text, start, end, depth, piece = (some[order].astype(np.int32) for some in (text, start, end, depth, piece))
        return cls(text, start, end, depth, piece, last)

    def choose(self, kept: np.ndarray, texts: np.ndarray | None = None) -> Lattice:
        """Only the edges whose pieces are kept (P,), numbered anew; and only some texts (B,), if they are given."""
        number = np.cumsum(kept) - 1  # (P,)
        edges = kept[self.piece] if texts is None else kept[self.piece] & texts[self.text]
        last, text = self.last, self.text[edges]
        if texts is not None:
            last, text = last[texts], (np.cumsum(texts) - 1)[text]
        start, end, depth, piece = (array[edges] for array in (self.start, self.end, self.depth, self.piece))
        return replace(self, text=text, start=start, end=end, depth=depth, piece=number[piece], last=last)

    def expected_counts(self, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """How often each piece (P,) is expected, over all ways to cut each text, which counts `weights` (B,) times."""
        reached = np.zeros(self.nodes)  # the logarithm of the sum over all ways to a node
        share = np.empty(len(self.piece))  # of an edge in all ways to its end
        for edges, heads, sizes in self._depths():
            value = reached[self.start[edges]] + scores[self.piece[edges]]
            top = np.maximum.reduceat(value, heads)
            power = np.exp(value - np.repeat(top, sizes))
            total = np.add.reduceat(power, heads)
            reached[self.end[edges][heads]] = top + np.log(total)
            share[edges] = power / np.repeat(total, sizes)
        through = np.zeros(self.nodes)  # how often a node is on the way
        through[self.last] = weights
        for edges, _, _ in reversed(list(self._depths())):
            share[edges] *= through[self.end[edges]]
            np.add.at(through, self.start[edges], share[edges])
        return np.bincount(self.piece, share, len(scores))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Which edges (E,) are on the best way through their text; of equals, the one with the shorter last piece."""
        reached, chosen = np.zeros(self.nodes), np.zeros(len(self.piece), bool)
        for edges, heads, sizes in self._depths():
            value = reached[self.start[edges]] + scores[self.piece[edges]]
            top = np.maximum.reduceat(value, heads)
            reached[self.end[edges][heads]] = top
            hits = np.flatnonzero(value == np.repeat(top, sizes))
            _, first = np.unique(self.end[edges][hits], return_index=True)
            chosen[edges.start + hits[first]] = True
        passed = np.zeros(self.nodes, bool)
        passed[self.last] = True
        for edges, _, _ in reversed(list(self._depths())):
            chosen[edges] &= passed[self.end[edges]]
            passed[self.start[edges][chosen[edges]]] = True
        return chosen

    @property
    def nodes(self) -> int:
        return int(self.last[-1]) + 1 if len(self.last) else 0

    def _depths(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The edges that end at a depth, for each from the first on: where each node's begin, and how many they are."""
        bounds = np.flatnonzero(np.diff(self.depth, prepend=0, append=np.iinfo(np.int32).max))
        for begin, stop in pairwise(bounds.tolist()):
            heads = np.flatnonzero(np.diff(self.end[begin:stop], prepend=-1))
            yield slice(begin, stop), heads, np.diff(heads, append=stop - begin)
