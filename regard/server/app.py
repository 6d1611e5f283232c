"""The application: what a shelf of models can do, behind a guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from regard import __version__
from regard.server import attention, completions, embeddings, page, tasks, translation
from regard.server.errors import add_handlers, error_body
from regard.server.guard import Doors, Guard
from regard.server.metrics import CONTENT_TYPE
from regard.server.shelf import Shelf

ABOUT = "Attention models: complete, embed, translate, fill, classify, tag, answer, and look inside."
NOT_READY: dict[int | str, dict[str, Any]] = {503: {"description": "No."}}


def application(shelf: Shelf, doors: Doors | None = None, looks: Sequence[Any] = ()) -> Guard:
    """The server as an ASGI application.  Looks that were made before are shown at once."""
    doors = doors or Doors()
    app = FastAPI(title="regard", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    guard = Guard(app, doors, shelf.limits, shelf.metrics)
    add_handlers(app)
    add_state(app, shelf, guard)
    for router in (
        completions.routes(shelf),
        embeddings.routes(shelf),
        translation.routes(shelf, doors),
        tasks.routes(shelf),
        attention.routes(shelf, attention.Looks(list(looks))),
        page.routes(app.openapi),
    ):
        app.include_router(router)
    return guard


def add_state(app: FastAPI, shelf: Shelf, guard: Guard) -> None:
    """How the server stands, and what it has."""

    @app.get("/livez", tags=["server"])
    async def livez() -> dict[str, str]:
        """The process lives."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["server"], responses=NOT_READY)
    async def readyz() -> JSONResponse:
        """Requests are answered."""
        if guard.draining or shelf.stuck:
            why = "the server is about to end" if guard.draining else f"no answer from {', '.join(shelf.stuck)}"
            return JSONResponse(error_body(503, why), 503)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", tags=["server"], response_class=Response)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(shelf.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    @app.get("/models", tags=["server"])
    async def models() -> dict[str, Any]:
        """The models, and what each can do."""
        every = shelf.models.values()
        return {"models": [{"name": one.name, "kind": one.kind, "tasks": list(one.tasks)} for one in every]}

    @app.get("/v1/models", tags=["server"])
    async def openai_models() -> dict[str, Any]:
        """The same, as OpenAI has it."""
        named = [{"id": name, "object": "model", "created": 0, "owned_by": "regard"} for name in shelf.models]
        return {"object": "list", "data": named}
