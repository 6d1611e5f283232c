"""Beam search in every slot of a stage.  Letters: S slots, K beams of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.decoding.decoder import Ends, Hypothesis, index_of
from regard.decoding.flow import Flow, Text, groups
from regard.decoding.scribe import Scribe
from regard.decoding.search import Beam, Search
from regard.decoding.stage import Stage
from regard.rows import Tokens


class Beams(Stage):
    def __init__(self, scribe: Scribe, slots: int, places: int, ends: Ends, how: Beam):
        super().__init__(scribe, slots, how.size, places)
        self.search = Search(slots, places, ends, how, self.device)
        self.going = self.told = self.search.going
        self.held += [index_of(ends.never, self.device)]

    def begin(self, slots: Tensor, texts: Sequence[Text]) -> None:
        self.read(slots, [text.source for text in texts])
        first, limits = ([getattr(text, name) for text in texts] for name in ("first", "left"))
        self.search.begin(slots, torch.tensor(first, device=self.device), torch.tensor(limits, device=self.device))

    def step(self, places: int) -> None:
        parents = self.search.extend(self.logits(self.search.token.flatten(), places))
        self.fixed.at.view(self.slots, -1).add_(self.going[:, None])  # one that is done stays at its last place
        self.fixed.follow(parents, places)


class Harvest(Flow):
    """What is found stays in its slot until the slot is needed: then all that is there is fetched at once."""

    def __init__(self, stage: Beams, texts: Sequence[Text]):
        super().__init__(stage, texts)
        self.ripe: dict[int, Text] = {}  # by slot

    def leave(self, slots: Sequence[int]) -> None:
        self.ripe |= {slot: self.active[slot] for slot in slots}
        super().leave(slots)
        if not self.active and not self.waiting:
            self.fetch()

    def fill(self) -> None:
        self.fetch()
        super().fill()

    def fetch(self) -> None:
        if not self.ripe:
            return
        slots = torch.tensor(list(self.ripe), device=self.stage.device)
        for text, found in zip(self.ripe.values(), self.stage.search.found(slots), strict=True):  # type: ignore
            text.about = found
        self.ripe = {}


def search_all(scribe: Scribe, source: Tokens, ends: Ends, how: Beam) -> list[list[Hypothesis]]:
    """The best hypotheses for each row of the source, best first."""
    about = zip(source.tolist(), ends.first(source).tolist(), ends.limits(source).tolist(), strict=True)
    texts = [Text(row, first, max(limit, 1)) for row, first, limit in about]
    for slots, places, some in groups(scribe, texts, how.size):
        key = "beams", slots, places, ends.end, ends.never, how
        with scribe.stage(key, partial(Beams, scribe, slots, places, ends, how)) as stage:
            for told in Harvest(stage, some).steps():
                for text, going in told:
                    text.done = not going
                    text.left = 0 if text.done else text.left
    return [text.about for text in texts]
