"""A contest: each contender in a process of its own, all ready at once, one at work at a time, turn by turn.

A contender is a function of a Plan and of its Turns.  It shows what it computes, and then works stretch by stretch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.plan import Plan
from regard.errors import Problem

CLOSE = 1e-4  # in float32, by the order of additions
ROUNDED = 0.05  # by which the lengths of what is written may differ, in bf16

Outputs = list[list[float]]  # a row of scores for each text


@dataclass(frozen=True)
class Stretch:
    seconds: float
    tokens: int  # real ones, special tokens among them, padding not

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


class Turns:
    """A contender's side of the contest."""

    def __init__(self, pipe: Connection, on_gpu: bool):
        self.pipe, self.on_gpu = pipe, on_gpu

    def show(self, outputs: Outputs) -> None:
        """What the contender computes, for all to compare."""
        self.pipe.send(outputs)

    def begin(self) -> None:
        """Wait until it is this contender's turn."""
        self.pipe.recv()
        self.start = self.now()

    def end(self, tokens: int) -> None:
        self.pipe.send(Stretch(self.now() - self.start, tokens))

    def now(self) -> float:
        """The time when all that was asked of the device is done."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()


Work = Callable[[Plan, Turns], None]
Entry = tuple[str, Work, Plan]  # a contender by its name


class Contender:
    """The other side: a process that is ready to work."""

    def __init__(self, name: str, work: Work, plan: Plan, limit: float | None = None):
        """`limit` is how many seconds it may be silent; None: any."""
        self.name, self.limit, spawn = name, limit, get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=at_work, args=(work, plan, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.outputs: Outputs = self.heard()
        self.stretches: list[Stretch] = []

    def turn(self) -> Stretch:
        with suppress(BrokenPipeError):  # of its end, hearing nothing tells
            self.pipe.send("go")
        self.stretches.append(self.heard())
        return self.stretches[-1]

    def heard(self) -> Any:
        try:
            if not self.pipe.poll(self.limit):
                self.process.terminate()
                raise Problem(f"{self.name} was silent for {self.limit:g} s, and was ended; allow more by --limit")
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            raise Problem(f"{self.name} ended with exit code {code}; what it said stands above") from None


def at_work(work: Work, plan: Plan, pipe: Connection) -> None:
    sys.stdout = sys.stderr  # standard output is for the table
    work(plan, Turns(pipe, plan.on_gpu))


@contextmanager
def ready(entries: Sequence[Entry], limit: float | None = None) -> Iterator[list[Contender]]:
    contenders: list[Contender] = []
    try:
        for entry in entries:
            contenders.append(Contender(*entry, limit))
        yield contenders
        for contender in contenders:
            contender.process.join(limit)
    finally:
        for contender in contenders:
            contender.process.terminate()


def contest(entries: Sequence[Entry], say: Callable[[str], None]) -> dict[str, list[Stretch]]:
    """The stretches of each contender, the first of which is its warm-up.  Nothing is timed before all agree."""
    with ready(entries) as contenders:
        for other in contenders[1:]:
            compare(contenders[0].name, contenders[0].outputs, other.name, other.outputs)
        for number in range(entries[0][2].stretches):
            for contender in contenders:
                took = contender.turn()
                say(f"{number or 'warm-up'}: {contender.name}, {took.tokens:,} tokens in {took.seconds:.2f} s")
        check_tokens(contenders, ROUNDED if entries[0][2].on_gpu else 0.0)
        return {contender.name: contender.stretches for contender in contenders}


def compare(name: str, outputs: Outputs, other_name: str, others: Outputs) -> float:
    """The largest difference of two contenders' outputs, which must be close."""
    rows = zip(outputs, others, strict=True)
    apart = [abs(one - other) for row in rows for one, other in zip(*row, strict=True)]
    far = [distance for distance in apart if not distance <= CLOSE]  # what is not a number is far
    if far:
        raise Problem(f"{name} and {other_name} differ by {max(far):.2g} in what they compute; nothing was timed")
    return max(apart)


def check_tokens(contenders: Sequence[Contender], apart: float = 0.0) -> None:
    """All must have read the same, or written it: what is written in half precision may be a little `apart`."""
    counts = {one.name: [stretch.tokens for stretch in one.stretches] for one in contenders}
    for stretches in zip(*counts.values(), strict=True):
        if max(stretches) > (1 + apart) * min(stretches):
            raise Problem(f"the contenders did not read the same tokens: {counts}")
