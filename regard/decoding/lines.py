"""One token after the other in every slot of a stage: the most probable, or drawn by each text's own chance.

Letters: S slots, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.decoding.choosing import Choosing
from regard.decoding.decoder import Ends, Hypothesis, index_of
from regard.decoding.flow import Harvest, Text, groups
from regard.decoding.scribe import Scribe
from regard.decoding.stage import Stage
from regard.decoding.steps import Abandoned, Steps
from regard.device import widest_float
from regard.rows import Tokens


class Lines(Stage):
    def __init__(self, scribe: Scribe, slots: int, places: int, choosing: Choosing, end: int | None):
        super().__init__(scribe, slots, 1, places)
        self.choosing, self.end = choosing, -1 if end is None else end
        self.held += [index_of(choosing.never, self.device)]

        def whole() -> Tensor:
            return torch.zeros(slots, dtype=torch.long, device=self.device)

        self.token, self.count, self.limit = whole(), whole(), whole()
        self.wide = widest_float(self.device)
        self.told = torch.zeros(2, slots, dtype=self.wide, device=self.device)  # tokens, and how probable they are
        drawn = not choosing.sampling.greedy
        self.chances = self.told.new_zeros(slots, places + 1) if drawn else None
        penalized = choosing.penalty != 1
        vocab = choosing.vocab or 0
        self.seen = torch.zeros(slots, vocab, dtype=torch.bool, device=self.device) if penalized else None

    def begin(self, slots: Sequence[int], texts: Sequence[Text]) -> None:
        self.put(*self.read(slots, texts), texts)

    def put(self, slots: Tensor, token: Tensor, limit: Tensor, texts: Sequence[Text]) -> None:  # (n,) each
        """What is known of texts that begin, in place of what was of others."""
        self.token.index_copy_(0, slots, token)
        self.limit.index_copy_(0, slots, limit)
        self.count.index_fill_(0, slots, 0)
        self.going.index_fill_(0, slots, True)
        if self.chances is not None:
            drawn = [np.resize(text.about.chance.random(text.left), self.chances.shape[1]) for text in texts]
            self.chances[slots] = torch.from_numpy(np.stack(drawn)).to(self.device)
        if self.seen is not None:
            seen = torch.zeros(len(texts), self.seen.shape[1], dtype=torch.bool)
            for row, text in zip(seen, texts, strict=True):
                row[text.about.ids] = True
            self.seen[slots] = seen.to(self.device)

    def step(self, places: int) -> None:
        chance = None
        if self.chances is not None:
            chance = self.chances.gather(1, self.count.clamp(max=self.chances.shape[1] - 1)[:, None]).squeeze(1)
        tokens, gains = self.choosing(self.logits(self.token, places), self.seen, chance)
        self.token.copy_(torch.where(self.going, tokens, self.token))
        self.tell(gains)
        if self.seen is not None:
            self.seen.scatter_(1, self.token[:, None], True)
        self.count.add_(self.going)
        self.going &= (self.token != self.end) & (self.count < self.limit)
        self.fixed.at.add_(self.going)  # one that is done stays at its last place: there may be no other

    def tell(self, gains: Tensor) -> None:  # (S,)
        self.told[0].copy_(self.token)
        self.told[1].copy_(gains)


class Kept(Lines):
    """Those of which nobody asks before they are done."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.tokens = torch.zeros(self.slots, self.places + 1, dtype=torch.long, device=self.device)
        self.total = torch.zeros(self.slots, dtype=self.wide, device=self.device)
        self.told = self.going

    def put(self, slots: Tensor, token: Tensor, limit: Tensor, texts: Sequence[Text]) -> None:
        super().put(slots, token, limit, texts)
        self.total.index_fill_(0, slots, 0.0)

    def tell(self, gains: Tensor) -> None:
        self.tokens.scatter_(1, self.count[:, None], self.token[:, None])  # of one that is done, behind its last
        self.total += torch.where(self.going, gains.to(self.wide), 0.0)

    def found(self, slots: Tensor) -> list[Hypothesis]:
        counts, totals = self.count[slots].tolist(), self.total[slots].tolist()
        rows = self.tokens[slots, : max(counts)].tolist()
        rows = [row[:count] for row, count in zip(rows, counts, strict=True)]
        ended = [row[:-1] if row[-1] == self.end else row for row in rows]
        return [Hypothesis(row, total, total) for row, total in zip(ended, totals, strict=True)]


def sample_all(
    scribe: Scribe, source: Tokens, ends: Ends, abandoned: Abandoned | None = None
) -> Steps[list[Hypothesis]]:
    """Greedily, one hypothesis for each row of the source."""
    about = zip(source.tolist(), ends.first(source).tolist(), ends.limits(source).tolist(), strict=True)
    # where it can only end, it does
    nothing = Hypothesis([], 0.0, 0.0)
    texts = [Text(row, first, limit - 1, nothing, number) for number, (row, first, limit) in enumerate(about)]
    choosing = Choosing(never=ends.never, shared=True)
    for slots, places, some in groups(scribe, [text for text in texts if text.left > 0], 1):
        with lines_of(scribe, slots, places, choosing, ends.end, Kept) as stage:
            yield from Harvest(stage, some).run(abandoned)
    return [text.about for text in texts]


def lines_of(
    scribe: Scribe, slots: int, places: int, choosing: Choosing, end: int | None, kind: type[Lines] = Lines
) -> AbstractContextManager[Lines]:
    key = kind, slots, places, choosing, end
    return scribe.stage(key, lambda: kind(scribe, slots, places, choosing, end))
