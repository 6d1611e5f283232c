"""A desk for each model: one thread, and rows of many clients that wait their turn and are computed together.

Rows are taken in the order of their arrival, up to a budget of tokens, whoever sent them: nothing is padded, so that
lengths may mix.  What takes many steps, such as writing, goes on step by step in turn with what comes after it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from threading import Condition, Thread
from typing import Any

import torch

from regard.decoding.steps import Found, Steps
from regard.server.errors import Refused, out_of_memory
from regard.server.limits import Limits
from regard.server.metrics import Metrics

LONGEST_WAIT = 60  # seconds that a client is told to stay away at most
log = logging.getLogger("regard.server")


@dataclass(eq=False)
class Row:
    """One text of a request, as the model is to have it."""

    job: Job
    number: int  # among those of its request
    given: Any
    cost: int  # in tokens
    order: int  # of arrival
    told: bool = False  # part of its answer has gone out
    done: bool = False

    @property
    def left(self) -> bool:
        """Nobody waits for it any more."""
        return self.job.left


News = tuple[Row, Any, bool]  # a row, something of its answer (or an error), and whether that was all
Work = Callable[[list[Row]], Iterator[list[News]]]


@dataclass(frozen=True)
class Kind:
    """What is asked.  Rows whose kinds are equal are computed together."""

    work: Work = field(compare=False)
    name: Hashable
    budget: int  # tokens computed together
    max_batches: int | None = None  # of this kind that are at work in turn; None: as the budget allows


class Job:
    """A request at a desk, and the news of its rows."""

    def __init__(self, desk: Desk, rows: int):
        self.desk, self.rows, self.undone, self.left = desk, rows, rows, False
        self.loop = asyncio.get_running_loop()
        self.news: asyncio.Queue[tuple[int, Any, bool]] = asyncio.Queue()

    def tell(self, news: list[tuple[int, Any, bool]]) -> None:
        """From the desk's thread."""
        try:
            self.loop.call_soon_threadsafe(self.hear, news)
        except RuntimeError:  # the loop has ended, and with it whoever waited
            self.left = True

    def hear(self, news: list[tuple[int, Any, bool]]) -> None:
        for one in news:
            self.news.put_nowait(one)

    async def each(self) -> AsyncIterator[tuple[int, Any, bool]]:
        while self.undone:
            number, value, done = await self.news.get()
            self.undone -= done
            yield number, value, done

    async def answers(self) -> list[Any]:
        """The last of each row's news, in the order of the rows."""
        found: list[Any] = [None] * self.rows
        async for number, value, done in self.each():
            if done:
                found[number] = value
        return found

    def leave(self) -> None:
        """Nobody waits for it: its rows give up their places."""
        self.left = True
        self.desk.forget(self)


class Desk:
    def __init__(self, name: str, limits: Limits, metrics: Metrics):
        self.name, self.limits, self.metrics = name, limits, metrics
        self.waiting: dict[Kind, list[Row]] = {}
        self.tokens = 0  # of the rows that wait
        self.pace = 0.0  # tokens a second, of late
        self.begun: list[tuple[Iterator[list[News]], list[Row], Kind]] = []
        self.since: float | None = None  # when the step that is being computed began
        self.numbers = count()
        self.changed = Condition()
        self.closed = False
        self.thread = Thread(target=self.run, name=f"desk of {name}", daemon=True)
        self.thread.start()

    # for the server's loop

    def submit(self, kind: Kind, given: Sequence[tuple[Any, int]]) -> Job:
        """Let rows wait, each given with its cost in tokens; or refuse all of them at once."""
        self.check(sum(cost for _, cost in given))
        job = Job(self, len(given))
        with self.changed:
            rows = [Row(job, number, one, cost, next(self.numbers)) for number, (one, cost) in enumerate(given)]
            self.waiting.setdefault(kind, []).extend(rows)
            self.count(sum(row.cost for row in rows))
            self.changed.notify()
        return job

    def check(self, cost: int) -> None:
        most = self.limits.tokens
        if cost > most:
            raise Refused(413, f"{cost:,} tokens are more than the {most:,} that may wait; send fewer at a time")
        if self.stuck:
            raise Refused(503, f"the model {self.name} does not answer", headers={"Retry-After": str(LONGEST_WAIT)})
        if self.tokens + cost > most:
            raise Refused(429, "too much is waiting already; try again later", headers={"Retry-After": self.wait()})

    def wait(self) -> str:
        """In how many seconds there should be room."""
        return str(min(max(round(self.tokens / self.pace) if self.pace else 1, 1), LONGEST_WAIT))

    @property
    def stuck(self) -> bool:
        """One step has taken longer than whole requests may."""
        since = self.since
        return since is not None and time.monotonic() - since > 2 * self.limits.deadline

    def forget(self, job: Job) -> None:
        with self.changed:
            for kind, rows in list(self.waiting.items()):
                kept = [row for row in rows if row.job is not job]
                self.count(sum(row.cost for row in kept) - sum(row.cost for row in rows))
                self.keep(kind, kept)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify()

    # for the desk's own thread, but for the counting

    def count(self, tokens: int) -> None:
        self.tokens += tokens
        self.metrics.waiting.labels(self.name).set(self.tokens)

    def keep(self, kind: Kind, rows: list[Row]) -> None:
        if rows:
            self.waiting[kind] = rows
        else:
            self.waiting.pop(kind, None)

    def run(self) -> None:
        while not self.closed:
            try:
                self.work()
            except BaseException as error:  # whatever happens, those who wait are told, and the next are served
                log.error("the desk of %s begins again", self.name, exc_info=error)
                self.drop(Refused(503, f"the model {self.name} failed; try again"))

    def work(self) -> None:
        while not self.closed:
            kind, rows = self.take()
            if rows:
                self.metrics.batch.labels(self.name).observe(sum(row.cost for row in rows))
                self.begun.append((answers(kind.work, rows), rows, kind))
            began = self.since = time.monotonic()
            spent = sum(self.step(steps, some) for steps, some, _ in self.begun)
            self.since = None
            if spent:
                pace = spent / max(time.monotonic() - began, 1e-6)
                self.pace = 0.8 * self.pace + 0.2 * pace if self.pace else pace
            self.begun = [one for one in self.begun if not all(row.done for row in one[1])]

    def take(self) -> tuple[Any, list[Row]]:
        """The oldest rows; nothing while what was begun leaves no room for them."""
        with self.changed:
            while not (self.waiting or self.begun or self.closed):
                self.changed.wait()
            free = [kind for kind in self.waiting if not self.is_full(kind)]
            if not free:
                return None, []
            kind = min(free, key=lambda kind: self.waiting[kind][0].order)
            rows, used = self.waiting[kind], sum(row.cost for _, some, _ in self.begun for row in some if not row.done)
            taken = together(rows, kind.budget - used, always=not self.begun)
            self.keep(kind, rows[len(taken) :])
            self.count(-sum(row.cost for row in taken))
            return kind, sorted(taken, key=lambda row: row.cost)  # a CPU takes those that are equally long at once

    def is_full(self, kind: Kind) -> bool:
        """As many batches of this kind are at work as may be."""
        return kind.max_batches is not None and sum(one == kind for *_, one in self.begun) >= kind.max_batches

    def step(self, steps: Iterator[list[News]], rows: list[Row]) -> int:
        """Let some rows go on by one step; the tokens of those that are done."""
        news = next(steps, None)
        if news is None:  # the rest has been left
            for row in rows:
                row.done = True
            return 0
        told: dict[Job, list[tuple[int, Any, bool]]] = {}
        for row, value, done in news:
            row.told, row.done = True, done
            told.setdefault(row.job, []).append((row.number, value, done))
        for job, some in told.items():
            job.tell(some)
        return sum(row.cost for row, _, done in news if done)

    def drop(self, error: Refused) -> None:
        with self.changed:
            rows = [row for some in self.waiting.values() for row in some]
            rows += [row for _, some, _ in self.begun for row in some if not row.done]
            self.waiting, self.begun, self.since = {}, [], None
            self.count(-self.tokens)
        for row in rows:
            row.job.tell([(row.number, error, True)])


def together(rows: list[Row], room: int, always: bool) -> list[Row]:
    """The oldest rows, as many as there is room for; the first of them in any case, if it must be."""
    fitting = sum(total <= room for total in accumulate(row.cost for row in rows))
    return rows[: max(fitting, always)]


def between_steps(steps: Steps[Found]) -> Generator[list[News], None, Found]:
    """Let the desk turn to other batches after each step, of which there is nothing to tell; what was found."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        yield []


def answers(work: Work, rows: list[Row]) -> Iterator[list[News]]:
    """The news of rows computed together.  Where that fails, halves are tried, so that only the guilty row fails."""
    try:
        yield from work(rows)
    except Exception as error:
        if out_of_memory(error) and torch.cuda.is_available():
            torch.cuda.empty_cache()
        yield [(row, error, True) for row in rows if row.told and not row.done]
        rest = [row for row in rows if not row.done]
        if len(rest) == 1:
            yield [(rest[0], error, True)]
        elif rest:
            middle = len(rest) // 2
            yield from answers(work, rest[:middle])
            yield from answers(work, rest[middle:])
