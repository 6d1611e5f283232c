"""Rows of many clients at a desk: who goes first, who goes together, who is refused and who is dropped."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tiny_models import asked, threaded, wait_until

from regard.errors import Problem
from regard.server.errors import Refused
from regard.server.limits import Limits
from regard.server.metrics import Metrics
from regard.server.queue import Desk, Job, Kind, Row, together
from regard.server.shelf import Shelf


class Held:
    """Work that waits to be let go, and remembers what came together."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, rows):
        self.batches.append([row.given for row in rows])
        self.go.wait(10)
        yield [(row, row.given, True) for row in rows]


@pytest.fixture
def desk():
    found = Desk("desk", Limits(tokens=100), Metrics())
    yield found
    found.close()


def rows_of(*costs: int) -> list[Row]:
    return [Row(None, n, n, cost, n) for n, cost in enumerate(costs)]


@pytest.mark.parametrize(
    "costs, room, always, wanted",
    [
        ((5, 5, 5), 10, True, [0, 1]),
        ((5, 90, 6, 4), 20, True, [0]),  # in the order of arrival: nobody is overtaken
        ((5, 90, 6, 4), 200, True, [0, 1, 2, 3]),
        ((50, 5), 10, True, [0]),  # longer than the budget: alone, rather than never
        ((50, 5), 10, False, []),  # it waits, and nobody overtakes it for ever
        ((5, 5), 0, False, []),
    ],
)
def test_the_oldest_rows_that_fit(costs, room, always, wanted):
    assert [row.number for row in together(rows_of(*costs), room, always)] == wanted


def test_rows_of_several_clients_are_computed_together_in_their_order(desk):
    work = Held()
    kinds = {name: Kind(work, name, 10) for name in "ab"}

    async def clients():
        first = desk.submit(kinds["a"], [("first", 1)])
        while not work.batches:
            await asyncio.sleep(0.01)
        jobs = [desk.submit(kinds[name[0]], [(f"{name}.1", 2), (f"{name}.2", 2)]) for name in ("a1", "b1", "a2", "a3")]
        assert desk.tokens == 16
        work.go.set()
        return [await job.answers() for job in (first, *jobs)]

    answers = [["first"], *([f"{name}.1", f"{name}.2"] for name in ("a1", "b1", "a2", "a3"))]
    assert asyncio.run(clients()) == answers
    assert work.batches == [["first"], ["a1.1", "a1.2", "a2.1", "a2.2", "a3.1"], ["b1.1", "b1.2"], ["a3.2"]]
    assert desk.tokens == 0
    assert desk.metrics.registry.get_sample_value("regard_batch_tokens_sum", {"model": "desk"}) == 17


def test_too_much_is_refused_at_once_and_too_large_for_ever(desk):
    work = Held()

    async def clients():
        desk.submit(Kind(work, "a", 10), [("first", 1)])
        while not work.batches:
            await asyncio.sleep(0.01)
        desk.submit(Kind(work, "a", 10), [("second", 99)])
        with pytest.raises(Refused) as full:
            desk.submit(Kind(work, "a", 10), [("third", 2)])
        with pytest.raises(Refused) as large:
            desk.submit(Kind(work, "a", 10), [("fourth", 101)])
        work.go.set()
        return full.value, large.value

    full, large = asyncio.run(clients())
    assert full.status == 429 and int(full.headers["Retry-After"]) >= 1
    assert large.status == 413


def test_who_leaves_is_dropped_before_anything_is_computed(desk):
    work = Held()

    async def clients():
        first = desk.submit(Kind(work, "a", 10), [("first", 1)])
        while not work.batches:
            await asyncio.sleep(0.01)
        leaves, stays = (desk.submit(Kind(work, "a", 10), [(name, 5)]) for name in ("leaves", "stays"))
        leaves.leave()
        assert desk.tokens == 5
        work.go.set()
        return await first.answers(), await stays.answers()

    assert asyncio.run(clients()) == (["first"], ["stays"])
    assert work.batches == [["first"], ["stays"]]


def test_only_the_guilty_row_fails(desk):
    def picky(rows):
        if any(row.given == "bad" for row in rows):
            raise Problem("bad is bad")
        yield [(row, row.given, True) for row in rows]

    async def client():
        return await desk.submit(Kind(picky, "a", 50), [(name, 1) for name in [*"abcdef", "bad", "g"]]).answers()

    *before, bad, last = asyncio.run(client())
    assert before == list("abcdef") and last == "g" and isinstance(bad, Problem)


def test_what_takes_long_does_not_hold_up_what_is_short(desk):
    ended = []

    def long(rows):
        for step in range(10**6):
            if rows[0].left:
                ended.append(step)
                return
            yield [(rows[0], step, False)]

    def short(rows):
        yield [(row, "done", True) for row in rows]

    async def clients():
        writing: Job = desk.submit(Kind(long, "long", 50), [("w", 5)])
        await asyncio.wait_for(anext(writing.each()), 5)
        found = await asyncio.wait_for(desk.submit(Kind(short, "short", 50), [("s", 5)]).answers(), 5)
        writing.leave()
        return found

    assert asyncio.run(clients()) == ["done"]
    wait_until(lambda: ended and not desk.begun)


def test_no_answer_before_the_deadline_is_told(models):
    shelf = Shelf(models, Limits(deadline=0.3))
    with threaded(shelf) as (port, guard):
        work = Held()

        async def clients():
            shelf.models["reader"].desk.submit(Kind(work, "a", 10), [("holds", 1)])
            return await asked(port, "/v1/embeddings", {"input": "the cat"})

        status, _, body = asyncio.run(clients())
        assert status == 504 and b"0.3 seconds" in body
        assert shelf.models["reader"].desk.tokens == 0
        work.go.set()
        wait_until(lambda: guard.open == 0)
    shelf.close()


def test_a_stream_past_its_deadline_ends_with_an_error(models):
    shelf = Shelf(models, Limits(deadline=0.3))
    with threaded(shelf) as (port, _):
        work = Held()

        async def clients():
            shelf.models["writer"].desk.submit(Kind(work, "a", 10), [("holds", 1)])
            return await asked(port, "/v1/completions", {"prompt": "the cat", "stream": True}, {"Connection": "close"})

        status, headers, body = asyncio.run(clients())
        work.go.set()
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        assert b'"code":504' in body and b"[DONE]" not in body
    shelf.close()
