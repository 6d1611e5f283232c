"""A client that leaves, or whose deadline has passed, costs no further decoding steps; nor does a long text hold up
a short one."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager

import pytest
from tiny_models import asked, request_bytes, threaded, wait_until

from regard.server.limits import Limits
from regard.server.shelf import Shelf

LONG = " ".join(["the cat sat on the mat"] * 10)  # 60 tokens: a hundred steps and more


class Stepping:
    """A model's decoding steps: counted, and held at one of them."""

    def __init__(self, model, monkeypatch, hold_at: int):
        self.count, self.hold_at, self.step = 0, hold_at, model.step
        self.reached, self.go = threading.Event(), threading.Event()
        monkeypatch.setattr(model, "step", self)

    def __call__(self, *given):
        self.count += 1
        if self.count == self.hold_at:
            self.reached.set()
            assert self.go.wait(20)
        return self.step(*given)


@contextmanager
def served(models, name: str, limits: Limits, monkeypatch):
    """A server, and the steps of one of its models, held at the third."""
    shelf = Shelf(models, limits)
    steps = Stepping(shelf.models[name].model.model, monkeypatch, 3)
    with threaded(shelf) as (port, guard):
        try:
            yield port, guard, shelf.models[name].desk, steps
        finally:
            steps.go.set()
    shelf.close()


REQUESTS = {
    "translate": ("toy-de-en", "/translate", {"q": LONG, "target": "en"}),
    "several lines": ("toy-de-en", "/translate", {"q": "\n".join([LONG] * 3), "target": "en", "alternatives": 2}),
    "look": ("toy-de-en", "/attention", {"text": LONG, "model": "toy-de-en"}),
    "complete": ("writer", "/v1/completions", {"prompt": "the", "max_tokens": 50, "n": 2, "temperature": 0}),
    "stream": ("writer", "/v1/completions", {"prompt": "the", "max_tokens": 50, "stream": True, "temperature": 0}),
}


@pytest.mark.parametrize("name, path, body", REQUESTS.values(), ids=REQUESTS)
def test_63_no_step_is_decoded_for_a_client_that_left(models, monkeypatch, name, path, body):
    with served(models, name, Limits(deadline=20), monkeypatch) as (port, guard, desk, steps):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request_bytes(path, body))
            assert steps.reached.wait(20)
        wait_until(lambda: guard.open == 0)
        steps.go.set()
        wait_until(lambda: not desk.begun and desk.tokens == 0)
        assert steps.count == 3


@pytest.mark.parametrize("name, path, body", REQUESTS.values(), ids=REQUESTS)
def test_no_step_is_decoded_beyond_the_deadline(models, monkeypatch, name, path, body):
    with served(models, name, Limits(deadline=0.3), monkeypatch) as (port, guard, desk, steps):
        status, _, answer = asyncio.run(asked(port, path, body, {"Connection": "close"}))
        assert b'"code":504' in answer and status == (200 if body.get("stream") else 504)
        steps.go.set()
        wait_until(lambda: not desk.begun and guard.open == 0)
        assert steps.count <= 3


def test_one_who_leaves_takes_nothing_from_those_who_stay(models, monkeypatch):
    """Lines of two clients in one batch: the others are translated as if they were alone."""
    wanted = models[2].model("a dog and a cat")
    with served(models, "toy-de-en", Limits(deadline=20), monkeypatch) as (port, guard, _desk, steps):

        async def both():
            leaves = asyncio.ensure_future(asked(port, "/translate", {"q": LONG, "target": "en"}))
            await asyncio.to_thread(steps.reached.wait, 20)
            stays = asyncio.ensure_future(asked(port, "/translate", {"q": "a dog and a cat", "target": "en"}))
            while guard.open < 2:
                await asyncio.sleep(0.01)
            leaves.cancel()
            while guard.open > 1:
                await asyncio.sleep(0.01)
            steps.go.set()
            return await stays

        status, _, body = asyncio.run(both())
        assert status == 200 and json.loads(body)["translatedText"] == wanted


def test_a_short_text_does_not_wait_for_a_long_one(models, monkeypatch):
    with served(models, "toy-de-en", Limits(deadline=20), monkeypatch) as (port, _guard, desk, steps):
        order = []

        async def ask(text: str) -> None:
            assert (await asked(port, "/translate", {"q": text, "target": "en"}))[0] == 200
            order.append(text)

        async def both():
            long = asyncio.ensure_future(ask(LONG))
            await asyncio.to_thread(steps.reached.wait, 20)
            short = asyncio.ensure_future(ask("mat"))
            while not desk.tokens:
                await asyncio.sleep(0.01)
            steps.go.set()
            await asyncio.gather(long, short)

        asyncio.run(both())
        assert order == ["mat", LONG]


def test_no_more_batches_are_begun_than_are_computed_well_in_turn(models, monkeypatch):
    with served(models, "toy-de-en", Limits(deadline=20), monkeypatch) as (port, guard, desk, steps):
        begun = []

        async def several():
            first = asyncio.ensure_future(asked(port, "/translate", {"q": LONG, "target": "en"}))
            await asyncio.to_thread(steps.reached.wait, 20)
            others = [asyncio.ensure_future(asked(port, "/translate", {"q": LONG, "target": "en"})) for _ in range(9)]
            while guard.open < 10:
                await asyncio.sleep(0.01)
            steps.go.set()
            while not first.done():
                begun.append(len(desk.begun))
                await asyncio.sleep(0.001)
            return await asyncio.gather(first, *others)

        assert [status for status, *_ in asyncio.run(several())] == [200] * 10
        assert max(begun) <= 4


def test_a_line_that_is_too_long_is_refused_and_said(models):
    shelf = Shelf(models, Limits(line_tokens=20))
    with threaded(shelf) as (port, _):
        for text in (LONG, f"the cat\n{LONG}", ["a dog", LONG]):
            status, _, body = asyncio.run(asked(port, "/translate", {"q": text, "target": "en"}))
            error = json.loads(body)["error"]
            assert status == 413 and error["param"] == "q" and "60 tokens, and 20 are" in error["message"]
        short = "\n".join(["the cat sat on the mat"] * 10)
        assert asyncio.run(asked(port, "/translate", {"q": short, "target": "en"}))[0] == 200
    shelf.close()
