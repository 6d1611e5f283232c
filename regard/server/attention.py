"""/attention: what a model did with a text, for the page.  Its header is JSON; its arrays are fetched one by one."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from regard.server.errors import Refused
from regard.server.queue import Desk, Kind, News, Row, between_steps
from regard.server.schemas import ERRORS, Attention
from regard.server.shelf import Served, Shelf
from regard.server.strict import StrictRoute
from regard.server.waiting import all_answered

MOST = 8  # looks that are kept
BYTES = 2**29  # of memory that they may take together, but for the newest
LONGEST = 1024  # tokens: an array of weights has their square, for each head


@dataclass(eq=False)
class Kept:
    look: Any  # a regard.viewer.look.Look
    desk: Desk | None = None  # where its model works; None: it was given as it is
    arrays: dict[str, int] = field(default_factory=dict)  # bytes of those that it has computed, as far as is known

    @property
    def bytes(self) -> int:
        return sum(self.arrays.values())


class Looks:
    """The last few looks, by names that cannot be guessed.  Those used longest ago are forgotten."""

    def __init__(self, looks: list[Any] = []):  # noqa: B006 (it is only read)
        self.kept: OrderedDict[str, Kept] = OrderedDict()
        self.given = [self.add(Kept(look), forget=False) for look in looks]

    def add(self, kept: Kept, forget: bool = True) -> str:
        name = secrets.token_urlsafe(9)
        self.kept[name] = kept
        kept.arrays[""] = bytes_of(kept.look.header())
        if forget:
            self.forget()
        return name

    def find(self, name: str) -> Kept:
        if name not in self.kept:
            raise Refused(404, "this look is no longer kept; look again")
        self.kept.move_to_end(name)
        return self.kept[name]

    def forget(self) -> None:
        while len(self.kept) > max(MOST, 1) or (len(self.kept) > 1 and self.bytes > BYTES):
            oldest = next((name for name in self.kept if name not in self.given), None)
            if oldest is None:
                return
            del self.kept[oldest]

    @property
    def bytes(self) -> int:
        return sum(kept.bytes for kept in self.kept.values())


def bytes_of(header: dict[str, Any]) -> int:
    """What a look keeps from the beginning: queries, keys and values of every layer."""
    layers = [layer for attention in header["attentions"] for layer in attention["layers"]]
    return sum(4 * layer["heads"] * layer["size"] * (layer["queries"] + 2 * layer["keys"]) for layer in layers)


def routes(shelf: Shelf, looks: Looks) -> APIRouter:
    router = APIRouter(route_class=StrictRoute, tags=["looking"])

    @router.post("/attention", responses=ERRORS)
    async def attention(request: Request, asked: Attention) -> Response:
        """Let a model read a text, and tell what there is to see."""
        served = shelf.find("look", asked.model)
        with served.used():
            cost = await shelf.aside(cost_of, served, asked)
            served.count(cost)
            kind = Kind(partial(looked, served), "look", 1)
            [look] = await all_answered(request, shelf, served.desk.submit(kind, [(asked, cost)]))
        return as_json({"id": looks.add(Kept(look, served.desk)), "look": look.header()})

    @router.get("/attention/{id}/{block:path}", responses=ERRORS)
    async def block(request: Request, id: str, block: str) -> Response:
        """One array: little-endian float32 in C order; X-Shape has its shape."""
        kept = looks.find(id)
        if kept.desk is None:
            array = await shelf.aside(kept.look.block, block)
        else:
            job = kept.desk.submit(Kind(computed, "block", 1), [((kept.look, block), 1)])
            [array] = await all_answered(request, shelf, job)
            kept.arrays[block] = array.nbytes
            looks.forget()
        return array_response(array)

    @router.get("/looks")
    async def given() -> Response:
        """The looks that the server was started with."""
        return as_json([{"id": name, "look": looks.kept[name].look.header()} for name in looks.given])

    return router


def as_json(body: Any) -> Response:
    return Response(to_json(body, inf_nan_mode="null"), media_type="application/json")


def array_response(array: np.ndarray) -> Response:
    shape = ",".join(str(size) for size in array.shape)
    content = np.ascontiguousarray(array, "<f4").tobytes()
    return Response(content, media_type="application/octet-stream", headers={"X-Shape": shape})


def cost_of(served: Served, asked: Attention) -> int:
    """Tokens of all the texts, which may not be too many."""
    vocabulary = served.reader.source if "translate" in served.tasks else served.reader.reading
    texts = [text for text in (asked.text, asked.second, asked.target) if text is not None]
    tokens = sum(len(ids) for ids in vocabulary.encode_batch(texts)) + (asked.write or 0) + 2
    if tokens > LONGEST:
        raise Refused(
            413, f"{tokens:,} tokens are more than the {LONGEST:,} that can be shown; shorten the text", "text"
        )
    return tokens


def looked(served: Served, rows: list[Row]) -> Iterator[list[News]]:
    from regard.viewer.looking import look

    for row in rows:
        asked, target = row.given, row.given.target
        if target is None and "translate" in served.tasks:  # step by step, so that the client can leave
            steps = served.model.translate_steps([asked.text], None, lambda _, row=row: row.left)
            [found] = yield from between_steps(steps)
            if row.left:
                continue
            target = found[0].tokens
        given = {"second": asked.second, "target": target, "write": asked.write or 0, "name": served.name}
        yield [(row, look(served.model, asked.text, **given), True)]


def computed(rows: list[Row]) -> Iterator[list[News]]:
    for row in rows:
        look, block = row.given
        yield [(row, look.block(block), True)]
