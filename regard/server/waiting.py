"""Waiting for a model's answer, no longer than the deadline, and only while the client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.server.errors import GONE, Refused, late
from regard.server.queue import Job
from regard.server.shelf import Shelf


async def answered(request: Request, shelf: Shelf, job: Job) -> list[Any]:
    """The answers of a job's rows; an error stands in the place of what failed."""
    answers, gone = asyncio.ensure_future(job.answers()), asyncio.ensure_future(departure(request))
    try:
        seconds = shelf.limits.deadline
        done, _ = await asyncio.wait({answers, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answers in done:
            return answers.result()
        if gone in done:
            shelf.metrics.left.inc()
            raise Refused(GONE, "the client left")
        raise late(seconds)
    finally:
        answers.cancel()
        gone.cancel()
        job.leave()


async def departure(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def all_answered(request: Request, shelf: Shelf, job: Job) -> list[Any]:
    """The same, where one failure is the failure of all."""
    found = await answered(request, shelf, job)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


@asynccontextmanager
async def leaving(job: Job, shelf: Shelf) -> AsyncIterator[None]:
    """However it ends, the job's places are given up."""
    try:
        yield
    finally:
        if job.undone:
            shelf.metrics.left.inc()
        job.leave()


class Stream(Response):
    """Server-sent events; they end when the client leaves."""

    def __init__(self, events: AsyncIterator[bytes], job: Job, shelf: Shelf):
        super().__init__()
        self.events, self.job, self.shelf = events, job, shelf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with leaving(self.job, self.shelf):
            sending = asyncio.ensure_future(self.send(send))
            gone = asyncio.ensure_future(departure(Request(scope, receive)))
            try:
                patience = 2 * self.shelf.limits.deadline  # with a client that reads slowly
                await asyncio.wait({sending, gone}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                sending.cancel()
                gone.cancel()

    async def send(self, send: Send) -> None:
        """The head goes out with the first event: until then a client that sends no more can be probed."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        begun = False
        async for event in self.events:
            if not begun:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                begun = True
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
