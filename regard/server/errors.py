"""What goes wrong with a request, told in one form: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from regard.errors import Problem

TYPES = {  # the names are OpenAI's
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "unavailable_error",
    504: "timeout_error",
}
GONE = 499  # the client has left; nobody reads it
log = logging.getLogger("regard.server")


class Refused(Exception):
    """A request that is not answered, and what the client is told."""

    def __init__(self, status: int, message: str, param: str | None = None, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.param, self.headers = status, message, param, dict(headers or {})


def late(seconds: float) -> Refused:
    return Refused(504, f"no answer within {seconds:g} seconds; send less at a time, or try again later")


def error_body(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def refusal(error: BaseException) -> Refused:
    """What is told of an error: a person's to mend, the memory's, or ours."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Problem):
        return Refused(400, str(error))
    if out_of_memory(error):
        return Refused(503, "there is not enough memory for this; send fewer or shorter texts")
    log.error("a request failed", exc_info=error)
    return Refused(500, "something went wrong here; the server's log has more")


def out_of_memory(error: BaseException) -> bool:
    """torch says so in two ways, of which one is an ordinary error."""
    asked = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return asked or isinstance(error, MemoryError | torch.cuda.OutOfMemoryError)


def error_response(error: BaseException) -> JSONResponse:
    told = refusal(error)
    return JSONResponse(error_body(told.status, told.message, told.param), told.status, told.headers)


def add_handlers(app: FastAPI) -> None:
    async def any_error(request: Request, error: Exception) -> JSONResponse:
        return error_response(error)

    async def http_error(request: Request, error: Any) -> JSONResponse:
        return error_response(Refused(error.status_code, str(error.detail), headers=error.headers))

    async def wrong_request(request: Request, error: Any) -> JSONResponse:
        """The values themselves are not told again: they may be long, or no text at all."""
        first = error.errors()[0]
        param = next((str(part) for part in first["loc"] if part != "body" and isinstance(part, str)), None)
        message = f"{param}: {first['msg']}" if param else first["msg"]
        return error_response(Refused(422, message, param))

    for kind, handler in (
        (Refused, any_error),
        (Problem, any_error),
        (HTTPException, http_error),
        (RequestValidationError, wrong_request),
        (Exception, any_error),
    ):
        app.add_exception_handler(kind, handler)
