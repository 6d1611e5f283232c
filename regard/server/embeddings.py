"""/v1/embeddings: vectors of texts.  A text that is too long for the model loses its end, as when it was trained."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from regard.data.framed import Framed, Row
from regard.layers.packed import packed
from regard.server.cores import dealt, each_alone
from regard.server.errors import Refused
from regard.server.queue import News
from regard.server.queue import Row as Waiting
from regard.server.schemas import ERRORS, Embedding
from regard.server.shelf import Served, Shelf, check_count
from regard.server.strict import StrictRoute
from regard.server.waiting import all_answered
from regard.tasks.reader import Reader


def routes(shelf: Shelf) -> APIRouter:
    router = APIRouter(route_class=StrictRoute, tags=["encoders"])

    @router.post("/v1/embeddings", responses=ERRORS)
    async def embed(request: Request, asked: Embedding) -> Response:
        """A vector for each text, pooled as the model's folder declares."""
        served = shelf.find("embed", asked.model)
        with served.used():
            rows = await shelf.aside(rows_of, served.reader, asked, shelf)
            tokens = sum(len(ids) for (ids, _), _ in rows)
            served.count(tokens)
            kind = served.asks(partial(vectors, served.reader), "embed")
            found = await all_answered(
                request, shelf, served.desk.submit(kind, [(row, len(row[0][0])) for row in rows])
            )
        return Response(to_json(told(served, asked, found, tokens)), media_type="application/json")

    return router


def rows_of(reader: Reader, asked: Embedding, shelf: Shelf) -> list[tuple[Row, int]]:
    """The row of each text behind the model's prompt, and how many of its tokens are the prompt's.  Ids are read
    as they are given."""
    given: list[Any] = [asked.input] if isinstance(asked.input, str) else list(asked.input)
    if given and isinstance(given[0], int):
        given = [given]
    check_count(len(given), shelf.limits, "input")
    if "" in given or [] in given:
        raise Refused(400, "an empty text has no vector; leave it out", "input")
    if isinstance(given[0], str):
        prompt = reader.pooling.prompts.choose(name=asked.prompt_name)
        skipped = reader.prompt_length(prompt) if prompt else 0
        return [(row, skipped) for row in reader.rows([(prompt + text,) for text in given])]
    for ids in given:
        reader.tokenizer.check(ids)
    return [(reader.tokenizer.frame.row(ids, longest=reader.longest), 0) for ids in given]


def vectors(reader: Reader, rows: list[Waiting]) -> Iterator[list[News]]:
    """All rows at once, laid end to end; on a CPU, some on each core."""
    parts = [rows] if reader.device.type != "cpu" else dealt(rows, [row.cost for row in rows])
    for part, found in zip(parts, each_alone(partial(embedded, reader), parts), strict=True):
        yield [(row, vector, True) for row, vector in zip(part, found, strict=True)]


def embedded(reader: Reader, rows: Sequence[Waiting]) -> np.ndarray:  # (rows, W)
    framed = Framed.of(row.given[0] for row in rows)
    tokens, types = framed.batch(range(len(rows)))
    tokens, types = tokens.to(reader.device), types.to(reader.device)
    prompts = torch.tensor([row.given[1] for row in rows], device=reader.device)  # (B,)
    with torch.inference_mode(), packed(reader.device):
        layers, choice = reader.model.encoder.layers(tokens, types), reader.pooling.layers
        states = choice(list(layers)) if choice else deque(layers, maxlen=1).pop()
        return reader.pooling(states, tokens.rows, prompts).float().cpu().numpy()


def told(served: Served, asked: Embedding, found: list[np.ndarray], tokens: int) -> dict[str, Any]:
    width = len(found[0])
    if asked.dimensions not in (None, width):
        raise Refused(400, f"the vectors of {served.name} have {width} numbers, and are not cut", "dimensions")
    form = as_base64 if asked.encoding_format == "base64" else as_list
    data = [{"object": "embedding", "index": n, "embedding": form(vector)} for n, vector in enumerate(found)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": served.name, "usage": usage}


def as_list(vector: np.ndarray) -> Any:
    return vector.tolist()


def as_base64(vector: np.ndarray) -> Any:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
