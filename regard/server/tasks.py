"""/fill, /classify, /tag and /answer: what encoders make of texts, an answer for each.

Where one of several texts cannot be answered, its place has the error, and the others are answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from typing import Any

import torch
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from regard.errors import UsageProblem
from regard.rows import Tokens
from regard.server.errors import Refused, error_body, refusal
from regard.server.queue import Kind, News, Row
from regard.server.schemas import ERRORS, Answer, Classify, Fill, Tag
from regard.server.shelf import Served, Shelf, as_list, check_count
from regard.server.strict import StrictRoute
from regard.server.waiting import answered
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Filled, Reader


def routes(shelf: Shelf) -> APIRouter:
    router = APIRouter(route_class=StrictRoute, tags=["encoders"], responses=ERRORS)

    async def answer_all(request: Request, served: Served, kind: Kind, inputs: list[Any], param: str) -> Response:
        check_count(len(inputs), shelf.limits, param)
        with served.used():
            costs = await shelf.aside(costs_of, served.reader, inputs)
            served.count(sum(costs))
            found = await answered(request, shelf, served.desk.submit(kind, list(zip(inputs, costs, strict=True))))
        return Response(to_json({"model": served.name, "answers": told(found)}), media_type="application/json")

    def predicting(served: Served) -> Kind:
        return served.asks(partial(predicted, served.model), "predict")

    @router.post("/fill")
    async def fill(request: Request, asked: Fill) -> Response:
        """For each [MASK] (or <mask>) of a text, the words that fit best."""
        served = shelf.find("fill", asked.model)
        kind = served.asks(partial(filled, served.reader, asked.best), ("fill", asked.best))
        return await answer_all(request, served, kind, as_list(asked.text), "text")

    @router.post("/classify")
    async def classify(request: Request, asked: Classify) -> Response:
        """The label of each text or pair, with probabilities; or a number."""
        served = shelf.find("classify", asked.model)
        inputs = pairs(asked.text, asked.second, "second") if asked.second is not None else as_list(asked.text)
        return await answer_all(request, served, predicting(served), inputs, "text")

    @router.post("/tag")
    async def tag(request: Request, asked: Tag) -> Response:
        """The words of each text with their tags, and the entities that they spell."""
        served = shelf.find("tag", asked.model)
        return await answer_all(request, served, predicting(served), as_list(asked.text), "text")

    @router.post("/answer")
    async def answer(request: Request, asked: Answer) -> Response:
        """The words of a context that answer a question."""
        served = shelf.find("answer", asked.model)
        inputs = pairs(asked.question, asked.context, "context")
        return await answer_all(request, served, predicting(served), inputs, "question")

    return router


def pairs(first: str | list[str], second: str | list[str], param: str) -> list[tuple[str, str]]:
    """Each text with its second one; a single one goes with all."""
    firsts, seconds = as_list(first), as_list(second)
    if isinstance(second, str):
        seconds = seconds * len(firsts)
    if len(firsts) != len(seconds):
        raise Refused(400, f"{len(seconds)} of {param} for {len(firsts)} texts; give one for each", param)
    return list(zip(firsts, seconds, strict=True))


def costs_of(reader: Reader, inputs: Sequence[Any]) -> list[int]:
    """How many tokens each input has, all of its texts together."""
    texts = [[given] if isinstance(given, str) else list(given) for given in inputs]
    lengths = iter([len(ids) for ids in reader.reading.encode_batch([text for some in texts for text in some])])
    return [sum(next(lengths) for _ in some) + 2 for some in texts]


def predicted(finetuned: Finetuned, rows: list[Row]) -> Iterator[list[News]]:
    found = finetuned.predict([row.given for row in rows])
    yield [(row, answer, True) for row, answer in zip(rows, found, strict=True)]


@torch.inference_mode()
def filled(reader: Reader, best: int, rows: list[Row]) -> Iterator[list[News]]:
    """The hidden places of all rows at once; the table of words is compared with these only."""
    mask, vocabulary = reader.tokenizer.mask, reader.tokenizer
    hidden = vocabulary.piece(mask)
    framed = [reader.row(row.given, allow=(hidden,)) for row in rows]
    for row, (ids, _) in zip(rows, framed, strict=True):
        if mask not in ids:
            raise UsageProblem(f"nothing is hidden in {row.given[:100]!r}: write {hidden} where a word is to be found")
    tokens = Tokens.of([ids for ids, _ in framed], reader.device)
    types = torch.tensor([type for _, types in framed for type in types], device=reader.device)
    places = (tokens.ids == mask).nonzero().squeeze(-1)
    scores = reader.model.scores("masked", reader.model(tokens, types)[places], tokens.rows)
    ranked = scores.float().softmax(-1).topk(min(best, scores.shape[-1]))
    words: list[list[list[Filled]]] = [[] for _ in rows]
    for row, ids, shares in zip(
        tokens.rows.row[places].tolist(), *(part.tolist() for part in ranked[::-1]), strict=True
    ):
        found = [Filled(vocabulary.decode([i]).strip(), p) for i, p in zip(ids, shares, strict=True)]
        words[row].append(found)
    yield [(row, one, True) for row, one in zip(rows, words, strict=True)]


def told(found: list[Any]) -> list[Any]:
    """Answers as JSON has them.  Where there is but one, its error is the request's."""
    if len(found) == 1 and isinstance(found[0], BaseException):
        raise found[0]
    return [failed(one) if isinstance(one, BaseException) else plain(one) for one in found]


def failed(error: BaseException) -> dict[str, Any]:
    refused = refusal(error)
    return error_body(refused.status, refused.message)


def plain(answer: Any) -> Any:
    if isinstance(answer, list):
        return [plain(one) for one in answer]
    return asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else {"value": answer}
