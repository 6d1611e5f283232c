"""Steps of training as stretches: the first step alone, when things are made ready, a warm-up, those that count."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.contest import Stretch, Turns
from benchmarks.peaks import forget, peak
from benchmarks.plan import Plan

NOT_TIMED = 2  # stretches: the first step, and the warm-up
WARM_UP = 3  # steps of it at least


@dataclass(frozen=True)
class Lap(Stretch):
    steps: int
    peak: int  # the most bytes held since training began


class Laps(Turns):
    """A contender that trains says of each step how many tokens it had; a stretch ends after so many steps, or after so
    many seconds."""

    def __init__(self, turns: Turns, plan: Plan):
        super().__init__(turns.pipe, turns.on_gpu)
        self.plan, self.done, self.steps, self.tokens = plan, 0, 0, 0

    def begin(self) -> None:
        if not self.done:
            forget(self.on_gpu)
        self.steps = self.tokens = 0
        super().begin()

    def step(self, tokens: int) -> bool:
        """A step is over; whether it was the last of all."""
        self.steps += 1
        self.tokens += tokens
        if not self.is_full():
            return False
        self.pipe.send(Lap(self.now() - self.start, self.tokens, self.steps, peak(self.on_gpu)))
        self.done += 1
        if self.done == self.plan.stretches:
            return True
        self.begin()
        return False

    def is_full(self) -> bool:
        if self.done == 0:
            return True
        if self.plan.steps:
            return self.steps >= self.plan.steps
        return self.steps >= WARM_UP and time.perf_counter() - self.start >= self.plan.seconds
