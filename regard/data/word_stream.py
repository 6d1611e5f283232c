"""A text on the device, taken in blocks with what lies beside them; and which words of it occur together how often.

Letters: N words of the text, V different ones, B blocks of G words, E words beside a block at each end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.words import WordText
from regard.errors import Problem

BLOCK = 32  # words; their pairs are scored as one product of matrices
FEWEST = 256  # words, or pairs, of a step
STRETCH = 2**22  # words counted at once, so that pairs never fill the memory,
PARTS = 2**26  # and counts that are yet to be added up
Counts = tuple[Tensor, Tensor]  # pairs of words as one number each, in order; and how often each occurs


@dataclass(frozen=True)
class BatchSize:
    """How many words, or pairs, are taken at once: as many as the device likes, unless a text is so short that too few
    steps would be left to learn in."""

    most: int = 16_384
    steps_at_least: int = 200

    def steps(self, total: float) -> int:
        return max(round(total / min(self.most, max(total / self.steps_at_least, FEWEST))), 1)


class WordStream:
    """The blocks of a text, in a new order every epoch.  Frequent words are left out by chance (Mikolov et al. 2013):
    of one that is a share f of the text, sqrt(sample / f) + sample / f stay."""

    def __init__(self, text: WordText, edge: int, size: BatchSize, sample: float, device: torch.device):
        self.edge, self.device = edge, device
        self.ids, self.rows = on_device(text, device)
        share = torch.from_numpy(text.counts).to(device) / len(self.ids)
        self.stays = ((sample / share).sqrt() + sample / share).float() if sample else torch.ones_like(share)
        expected = float((self.stays.clamp(max=1) * share).sum()) * len(self.ids)
        self.steps = size.steps(expected)  # of an epoch

    def epoch(self) -> Iterator[dict[str, Any]]:
        """Blocks with both edges, (B, E + G + E): the ids of the words, and the line each is in, -1 where there is
        none."""
        drawn = torch.rand(len(self.ids), device=self.device) < self.stays[self.ids]
        ids, rows = self.ids[drawn], self.rows[drawn]
        count = -(-len(ids) // BLOCK)
        sides = (self.edge, self.edge + count * BLOCK - len(ids))
        ids, rows = F.pad(ids, sides), F.pad(rows, sides, value=-1)
        places = torch.arange(BLOCK + 2 * self.edge, device=self.device)
        for some in torch.randperm(count, device=self.device).tensor_split(self.steps):
            if len(some):
                chosen = some[:, None] * BLOCK + places
                yield {"ids": ids[chosen].long(), "rows": rows[chosen]}


class Cooccurrences:
    """How often words stand within a window of each other; a pair at distance d counts 1 / d (Pennington et al. 2014).
    Of a pair and its reverse one is kept."""

    def __init__(self, text: WordText, window: int, size: BatchSize, device: torch.device):
        self.vocab, self.device = len(text.words), device
        self.pairs, self.counts = self.counted(*on_device(text, device), window)
        if not len(self.pairs):
            raise Problem("no two words stand on one line: there is nothing to count. Give lines of text.")
        self.steps = size.steps(len(self.pairs))

    def epoch(self) -> Iterator[dict[str, Any]]:
        for some in torch.randperm(len(self.pairs), device=self.device).tensor_split(self.steps):
            pairs = self.pairs[some]
            yield {"first": pairs // self.vocab, "second": pairs % self.vocab, "counts": self.counts[some]}

    def counted(self, ids: Tensor, rows: Tensor, window: int) -> Counts:
        parts: list[Counts] = []
        for start in range(0, len(ids), STRETCH):
            stretch = slice(start, start + STRETCH + window)
            parts.append(self.beside(ids[stretch].long(), rows[stretch], window, STRETCH))
            if sum(len(pairs) for pairs, _ in parts[1:]) > max(PARTS, len(parts[0][0])):  # as long as the sum, or more
                parts = [added_up(parts)]
        return added_up(parts)

    def beside(self, ids: Tensor, rows: Tensor, window: int, most: int) -> Counts:
        """Pairs whose first word is one of the first `most`."""
        parts = []
        for distance in range(1, window + 1):
            one, other = ids[:-distance][:most], ids[distance:][:most]
            pairs = torch.minimum(one, other) * self.vocab + torch.maximum(one, other)
            pairs = pairs[(rows[:-distance] == rows[distance:])[:most]]
            parts.append((pairs, torch.full((len(pairs),), 1 / distance, device=self.device)))
        return added_up(parts)


def on_device(text: WordText, device: torch.device) -> tuple[Tensor, Tensor]:  # (N,), (N,)
    """The ids of a text, and the line each is in."""
    lengths = torch.from_numpy(text.lines.lengths).to(device)
    rows = torch.arange(len(lengths), dtype=torch.int32, device=device).repeat_interleave(lengths)
    return torch.from_numpy(text.lines.ids).to(device), rows


def added_up(parts: list[Counts]) -> Counts:
    """Each pair once, with all that was counted of it."""
    pairs, counts = (torch.cat(each) for each in zip(*parts, strict=True))
    pairs, order = pairs.sort()
    pairs, which = torch.unique_consecutive(pairs, return_inverse=True)
    return pairs, torch.zeros(len(pairs), device=pairs.device).index_add_(0, which, counts[order])
