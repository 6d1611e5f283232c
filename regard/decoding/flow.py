"""Continuous batching: texts go through the slots of a stage, and the slot of one that is done goes to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.decoding.scribe import Scribe
from regard.decoding.stage import Stage, doubled, slots_for
from regard.decoding.steps import Abandoned

TOKENS = 16_384  # of sources that are read at once
SHARE = 4  # a quarter of the slots is free before they are filled again: to read is longer than a step


@dataclass(eq=False)
class Text:
    """What is to be written: what stands before it, its first token, and how many tokens may follow."""

    source: Sequence[int]
    first: int
    left: int  # 0 when it has ended by itself
    about: Any = None  # whose it is, or what was found
    number: int = 0  # among those that are asked for together
    done: bool = False
    since: int = 0  # the step with which it began

    def places(self, reads: bool) -> int:
        """As many as it may need."""
        return len(self.source) + self.left if reads else max(len(self.source), self.left)


class Flow:
    def __init__(self, stage: Stage, texts: Sequence[Text]):
        self.stage, self.waiting = stage, deque(texts)
        self.active: dict[int, Text] = {}  # by slot
        self.free = list(range(stage.slots))[::-1]

    def looks(self) -> Iterator[tuple[int, list[Any]]]:
        """Launch steps until all is done; of each its number, and what is told of every slot."""
        while self.waiting or self.active:
            if self.waiting and (not self.active or SHARE * len(self.free) >= self.stage.slots):
                self.fill()
            self.stage.launch(self.places())
            while len(self.stage.behind) > self.stage.lag and self.active:
                yield self.stage.look()

    def steps(self) -> Iterator[list[tuple[Text, Any]]]:
        """Of each step, what was told of every text that was being written.  Who takes it says which are done."""
        for number, told in self.looks():
            some = [(slot, text) for slot, text in self.active.items() if text.since <= number]
            yield [(text, told[slot]) for slot, text in some]
            self.leave([slot for slot, text in some if text.done])

    def leave(self, slots: Sequence[int]) -> None:
        """What was written there is done; of what the stage does not know, it is told."""
        if not slots:
            return
        if early := [slot for slot in slots if self.active[slot].left]:
            self.stage.halt(early)
        for slot in slots:
            del self.active[slot]
        self.free += slots
        self.survey()

    def fill(self) -> None:
        """Let texts that wait begin, as many as there are slots for."""
        while self.waiting and self.free:
            slots, texts, tokens = list[int](), list[Text](), 0
            while self.waiting and self.free and (not texts or tokens + len(self.waiting[0].source) <= TOKENS):
                slots.append(self.free.pop())
                texts.append(self.waiting.popleft())
                texts[-1].since, tokens = self.stage.launched, tokens + len(texts[-1].source)
            self.stage.begin(slots, texts)
            self.active |= zip(slots, texts, strict=True)
        self.survey()

    def survey(self) -> None:
        """What decides how many places a step needs, of the texts that are being written."""
        texts, reads = self.active.values(), self.stage.scribe.reads
        self.ahead = max((len(text.source) * reads - text.since for text in texts), default=0)
        self.longest = 0 if reads else max((len(text.source) for text in texts), default=0)

    def places(self) -> int:
        """As many as a step needs: one more than the furthest text has filled, or as many as a source has."""
        return max(self.longest, self.stage.launched + 1 + self.ahead)


class Harvest(Flow):
    """Texts of which nobody asks before they are done: the host is told which still go.  What was written stays in its
    slot until the slot is needed; then all that is there is fetched at once."""

    def __init__(self, stage: Stage, texts: Sequence[Text]):
        super().__init__(stage, texts)
        self.ripe: dict[int, Text] = {}  # by slot

    def run(self, abandoned: Abandoned | None = None) -> Iterator[None]:
        """Step by step; texts that are abandoned on the way stay without what was written of them."""
        for number, going in self.looks():
            done = [slot for slot, text in self.active.items() if not going[slot] and text.since <= number]
            for slot in done:
                self.active[slot].left = 0
            self.leave(done)
            yield
            if abandoned is not None:
                self.give_up(abandoned)
        self.fetch()

    def give_up(self, abandoned: Abandoned) -> None:
        """Write no more of texts that nobody waits for, and do not begin them."""
        self.waiting = deque(text for text in self.waiting if not abandoned(text.number))
        super().leave([slot for slot, text in self.active.items() if abandoned(text.number)])

    def leave(self, slots: Sequence[int]) -> None:
        self.ripe |= {slot: self.active[slot] for slot in slots}
        super().leave(slots)

    def fill(self) -> None:
        self.fetch()
        super().fill()

    def fetch(self) -> None:
        if not self.ripe:
            return
        slots = torch.tensor(list(self.ripe), device=self.stage.device)
        for text, found in zip(self.ripe.values(), self.stage.found(slots), strict=True):
            text.about = found
        self.ripe = {}


def groups(scribe: Scribe, texts: Sequence[Text], beams: int) -> Iterator[tuple[int, int, list[Text]]]:
    """Slots, places, and the texts to be written in them: together if there is room, or else the long ones apart."""
    rest = list(texts)
    while rest:
        needs = [doubled(text.places(scribe.reads)) for text in rest]
        places = max(needs)
        slots, wanted = slots_for(scribe, len(rest), beams, places), slots_for(scribe, len(rest), beams, 1)
        together = slots == wanted
        yield slots, places, [text for text, need in zip(rest, needs, strict=True) if together or need == places]
        rest = [text for text, need in zip(rest, needs, strict=True) if not together and need < places]
