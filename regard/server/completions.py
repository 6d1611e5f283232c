"""/v1/completions: what language models write, at once or as it is written."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from regard.decoding.generate import Draft, Writing, Written, drafts_of, generate_steps
from regard.server.errors import Refused, error_body, late, refusal
from regard.server.queue import Job, Kind, News, Row
from regard.server.schemas import ERRORS, MOST_STOPS, Completion
from regard.server.shelf import Served, Shelf, check_count
from regard.server.strict import StrictRoute
from regard.server.waiting import Stream, all_answered
from regard.tasks.writer import Writer

BUDGET = 8192  # tokens that are written on together: their keys and values are kept
MOST = 16  # tokens that are written where nobody says how many; OpenAI's
REASONS = {"end": "stop", "stop": "stop", "most": "length", "places": "length"}
NOTHING: dict[str, tuple[Any, ...]] = {  # fields that are not honoured, and what may stand there: it asks for nothing
    "logprobs": (None,),
    "suffix": (None, ""),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
}


@dataclass(frozen=True)
class Begun:
    """A request that is being written: the prompts, each with its drafts, and how they are told."""

    model: str
    asked: Completion
    drafts: list[Draft]
    prompts: list[list[int]]
    name: str
    created: int

    def body(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = {"id": self.name, "object": "text_completion", "created": self.created, "model": self.model}
        return {**head, "choices": choices, **more}

    def choice(self, number: int, text: str, why: str | None) -> dict[str, Any]:
        return {"text": text, "index": number, "logprobs": None, "finish_reason": REASONS[why] if why else None}

    def before(self, number: int) -> str:
        return self.drafts[number].prompt if self.asked.echo else ""

    def usage(self, written: int) -> dict[str, int]:
        read = sum(len(prompt) for prompt in self.prompts)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def routes(shelf: Shelf) -> APIRouter:
    router = APIRouter(route_class=StrictRoute, tags=["language models"])

    @router.post("/v1/completions", responses=ERRORS)
    async def complete(request: Request, asked: Completion) -> Response:
        """Go on with texts; with `stream`, as server-sent events."""
        served = shelf.find("complete", asked.model)
        check(asked)
        begun = await shelf.aside(begin, served, asked, shelf)
        how = begun.drafts[0].how
        kind = Kind(partial(written, served.model), ("complete", how.temperature, how.top_p, how.top_k), BUDGET)
        job = served.desk.submit(kind, [(draft, draft.given + draft.how.most) for draft in begun.drafts])
        if asked.stream:
            return Stream(events(begun, job, shelf), job, shelf)
        found = await all_answered(request, shelf, job)
        choices = [begun.choice(n, begun.before(n) + one.text, one.why) for n, one in enumerate(found)]
        usage = begun.usage(sum(len(one.tokens) for one in found))
        return Response(to_json(begun.body(choices, usage=usage)), media_type="application/json")

    return router


def check(asked: Completion) -> None:
    for name, allowed in NOTHING.items():
        if getattr(asked, name) not in allowed:
            raise Refused(400, f"{name} is not honoured here; leave it out", name)
    if asked.best_of not in (None, asked.n or 1):
        raise Refused(400, "best_of is not honoured here beyond n; leave it out", "best_of")
    if asked.stream_options and not asked.stream:
        raise Refused(400, "stream_options are for a stream; leave them out, or say stream", "stream_options")
    stops = stops_of(asked)
    if len(stops) > MOST_STOPS or "" in stops:
        raise Refused(400, f"stop may have up to {MOST_STOPS} strings, none of them empty", "stop")


def stops_of(asked: Completion) -> tuple[str, ...]:
    return (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())


def writing(asked: Completion) -> Writing:
    return Writing(
        most=asked.max_tokens or MOST,
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
        stop=stops_of(asked),
        samples=asked.n or 1,
        seed=secrets.randbits(62) if asked.seed is None else asked.seed,
    )


def begin(served: Served, asked: Completion, shelf: Shelf) -> Begun:
    """The prompts read, and a draft for each text to write."""
    writer: Any = served.model
    texts, ids = prompts_of(writer, asked, shelf)
    places = writer.limits.places
    for text, row in zip(texts, ids, strict=True):
        if len(row) > places:
            raise Refused(
                400, f"the prompt {text[:40]!r} has {len(row):,} tokens, and the model {places:,} places", "prompt"
            )
    drafts = drafts_of(list(zip(texts, ids, strict=True)), writer.tokenizer, writing(asked))
    return Begun(served.name, asked, drafts, ids, f"cmpl-{secrets.token_hex(12)}", int(time.time()))


def prompts_of(writer: Writer, asked: Completion, shelf: Shelf) -> tuple[list[str], list[list[int]]]:
    given: list[Any] = [asked.prompt] if isinstance(asked.prompt, str) else list(asked.prompt)
    if given and isinstance(given[0], int):
        given = [given]
    check_count(len(given) * (asked.n or 1), shelf.limits, "prompt")
    if isinstance(given[0], str):
        return given, writer.begun(given)
    if [] in given:
        raise Refused(400, "a prompt without ids gives nothing to begin with", "prompt")
    return writer.tokenizer.decode_batch(given), given


def written(writer: Writer, rows: list[Row]) -> Iterator[list[News]]:
    """Pieces as they are written.  A draft whose client has left is not written on."""
    drafts = [row.given for row in rows]
    for number, draft in enumerate(drafts):
        draft.row = number
    for pieces in generate_steps(writer.scribe, drafts, writer.limits, drafts[0].how):
        told = [(rows[piece.row], piece) for piece in pieces]
        yield [(row, piece.done or piece.text, piece.done is not None) for row, piece in told if not row.left]
        for row in rows:
            if row.left:
                row.done = row.given.abandoned = True


async def events(begun: Begun, job: Job, shelf: Shelf) -> AsyncIterator[bytes]:
    """What is written, piece by piece, then [DONE]; an error ends it instead."""
    told, tokens = [""] * job.rows, 0
    news, until = job.each(), time.monotonic() + shelf.limits.deadline
    try:
        while job.undone:
            number, value, done = await asyncio.wait_for(anext(news), until - time.monotonic())
            if isinstance(value, BaseException):
                raise value
            text, why = (value.text[len(told[number]) :], value.why) if isinstance(value, Written) else (value, None)
            before = "" if told[number] else begun.before(number)
            told[number] += text
            tokens += len(value.tokens) if done else 0
            yield event(begun.body([begun.choice(number, before + text, why)]))
        if begun.asked.stream_options and begun.asked.stream_options.include_usage:
            yield event(begun.body([], usage=begun.usage(tokens)))
        yield b"data: [DONE]\n\n"
    except Exception as error:
        job.leave()  # before the client is told: nothing more is written for it
        refused = late(shelf.limits.deadline) if isinstance(error, TimeoutError) else refusal(error)
        yield event(error_body(refused.status, refused.message))


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + to_json(body) + b"\n\n"
