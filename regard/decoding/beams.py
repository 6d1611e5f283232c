"""Beam search in every slot of a stage.  Letters: S slots, K beams of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from regard.decoding.decoder import Ends, Hypothesis, index_of
from regard.decoding.flow import Harvest, Text, groups
from regard.decoding.scribe import Scribe
from regard.decoding.search import Beam, Search
from regard.decoding.stage import Stage
from regard.decoding.steps import Abandoned, Steps
from regard.rows import Tokens


class Beams(Stage):
    def __init__(self, scribe: Scribe, slots: int, places: int, ends: Ends, how: Beam):
        super().__init__(scribe, slots, how.size, places)
        self.search = Search(slots, places, ends, how, self.device)
        self.going = self.told = self.search.going
        self.held += [index_of(ends.never, self.device)]

    def begin(self, slots: Sequence[int], texts: Sequence[Text]) -> None:
        self.search.begin(*self.read(slots, texts))

    def step(self, places: int) -> None:
        parents = self.search.extend(self.logits(self.search.token.flatten(), places))
        self.fixed.at.view(self.slots, -1).add_(self.going[:, None])  # one that is done stays at its last place
        self.fixed.follow(parents, places)

    def found(self, slots: Tensor) -> list[list[Hypothesis]]:
        return self.search.found(slots)


def search_all(
    scribe: Scribe, source: Tokens, ends: Ends, how: Beam, abandoned: Abandoned | None = None
) -> Steps[list[list[Hypothesis]]]:
    """The best hypotheses for each row of the source, best first."""
    about = zip(source.tolist(), ends.first(source).tolist(), ends.limits(source).tolist(), strict=True)
    texts = [Text(row, first, max(limit, 1), [], number) for number, (row, first, limit) in enumerate(about)]
    for slots, places, some in groups(scribe, texts, how.size):
        key = "beams", slots, places, ends.end, ends.never, how
        with scribe.stage(key, partial(Beams, scribe, slots, places, ends, how)) as stage:
            yield from Harvest(stage, some).run(abandoned)
    return [text.about for text in texts]
