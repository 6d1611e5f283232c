"""/translate and /languages, as LibreTranslate has them.  Each line of a text is translated by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException

from regard.decoding.beam import Beam
from regard.server.errors import Refused
from regard.server.guard import Doors
from regard.server.limits import Limits
from regard.server.queue import Kind, News, Row, between_steps
from regard.server.schemas import ERRORS, Translate
from regard.server.shelf import Served, Shelf, as_list, check_count
from regard.server.strict import StrictRoute
from regard.server.waiting import all_answered
from regard.tasks.translate import Translation, Translator

NAMES = {  # of languages, by ISO 639; others are called by their code
    "cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian",
    "ja": "Japanese", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "zh": "Chinese",
}  # fmt: skip
FORM = "application/x-www-form-urlencoded"
AUTO = "auto"


class FormRoute(StrictRoute):
    """Takes a form for JSON: LibreTranslate's own client sends one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def either(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
                request = as_json(request, await request.body())
            return await handler(request)

        return either


def as_json(request: Request, form: bytes) -> Request:
    """The same request, as if it had been sent as JSON."""
    try:
        fields = parse_qs(form.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=100)
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {str(error)[:100]}") from None
    body = json.dumps({name: values if len(values) > 1 else values[0] for name, values in fields.items()}).encode()
    scope = dict(request.scope, headers=list(request.scope["headers"]))
    MutableHeaders(scope=scope)["content-type"] = "application/json"
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return first.pop() if first else await request.receive()

    return Request(scope, receive)


def routes(shelf: Shelf, doors: Doors) -> APIRouter:
    router = APIRouter(route_class=FormRoute, tags=["translators"])

    @router.post("/translate", responses=ERRORS)
    async def translate(request: Request, asked: Translate) -> Response:
        """Translate a text or several."""
        if asked.api_key is not None or "authorization" not in request.headers:
            doors.admit_key(asked.api_key or "")
        served = chosen(shelf, asked)
        lines = [text.split("\n") for text in texts_of(shelf, asked)]
        flat = [line for text in lines for line in text]
        full = [number for number, line in enumerate(flat) if line.strip()]
        costs = await shelf.aside(costs_of, served.model, [flat[number] for number in full], shelf.limits)
        work = partial(translated, served.model, asked.alternatives)
        kind = Kind(work, ("translate", asked.alternatives), BUDGET, MAX_BATCHES)
        rows = list(zip((flat[number] for number in full), costs, strict=True))
        found: list[list[Translation]] = [[Translation(line, [], 0.0, 0.0)] for line in flat]
        for number, one in zip(full, await all_answered(request, shelf, served.desk.submit(kind, rows)), strict=True):
            found[number] = one
        return Response(to_json(told(asked, lines, iter(found))), media_type="application/json")

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """From which languages into which."""
        pairs = [one.languages for one in shelf.models.values() if one.languages]
        codes = dict.fromkeys(code for pair in pairs for code in pair)
        targets = {code: [target for source, target in pairs if source == code] for code in codes}
        return [{"code": code, "name": NAMES.get(code, code), "targets": targets[code]} for code in codes]

    return router


BUDGET = 1024  # tokens of sources, each of which has several beams
MAX_BATCHES = 4  # at work in turn: what comes then waits, and is computed together


def texts_of(shelf: Shelf, asked: Translate) -> list[str]:
    texts = as_list(asked.q)
    check_count(len(texts), shelf.limits, "q")
    check_count(sum(text.count("\n") + 1 for text in texts), shelf.limits, "q")
    return texts


def chosen(shelf: Shelf, asked: Translate) -> Served:
    """The translator of this name, or between these languages."""
    if asked.model is not None:
        return shelf.find("translate", asked.model)
    shelf.find("translate")
    pairs = {one.languages: one for one in shelf.models.values() if one.languages}
    fit = [pair for pair in pairs if pair[1] == asked.target and asked.source in (pair[0], AUTO)]
    there = ", ".join("-".join(pair) for pair in pairs) or "none with a language"
    if not fit:
        raise Refused(400, f"no translator from {asked.source!r} into {asked.target!r}; there are: {there}", "target")
    if len(fit) > 1:
        raise Refused(400, f"languages are not recognised here; say from which to translate: {there}", "source")
    return pairs[fit[0]]


def costs_of(translator: Translator, lines: list[str], limits: Limits) -> list[int]:
    """Tokens of each line, with the one that ends it; a line that is too long is refused, rather than cut."""
    most = min(limits.line_tokens, translator.longest)
    lengths = [len(ids) for ids in translator.source.encode_batch(lines)]
    for line, length in zip(lines, lengths, strict=True):
        if length > most:
            told = f"the line {line[:40]!r} has {length:,} tokens, and {most:,} are translated at once"
            raise Refused(413, f"{told}; break it into several lines", "q")
    return [length + 1 for length in lengths]


def translated(translator: Translator, alternatives: int, rows: list[Row]) -> Iterator[list[News]]:
    """Step by step, in turn with what came later.  A line whose client has left is not translated on."""
    texts, beam = [row.given for row in rows], Beam(best=1 + alternatives)
    found = yield from between_steps(translator.translate_steps(texts, beam, lambda number: rows[number].left))
    yield [(row, one, True) for row, one in zip(rows, found, strict=True)]


def told(asked: Translate, lines: list[list[str]], found: Iterator[list[Translation]]) -> dict[str, Any]:
    """The best translation of each text, and the next best, line by line."""
    each = [[next(found) for _ in text] for text in lines]
    ranked = [[joined(text, rank) for text in each] for rank in range(1 + asked.alternatives)]
    alone = isinstance(asked.q, str)
    body: dict[str, Any] = {"translatedText": ranked[0][0] if alone else ranked[0]}
    if asked.alternatives:
        others = [list(row) for row in zip(*ranked[1:], strict=True)]
        body["alternatives"] = others[0] if alone else others
    return body


def joined(lines: list[list[Translation]], rank: int) -> str:
    return "\n".join(one[min(rank, len(one) - 1)].text for one in lines)
