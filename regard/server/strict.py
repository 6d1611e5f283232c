"""JSON as it is meant: no name twice, no NaN, no number that is too large."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


def strict_json(body: bytes) -> Any:
    """What a body says, or an HTTPException, which FastAPI hands on."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=once, parse_constant=no_number, parse_float=finite)
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise HTTPException(400, f"the body is no JSON: {reason}") from None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


class StrictRequest(Request):
    async def json(self) -> Any:
        return strict_json(await self.body())


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strictly
