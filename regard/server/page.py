"""The page's own files, and nothing else of the disk; and /docs, the API as a page without a script."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from regard.server.errors import Refused

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
INDEX = "index.html"
STYLE = """body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem;
  color-scheme: light dark; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
h2 { margin-top: 2rem; border-top: 1px solid; padding-top: 1rem; font-size: 1.1rem; }
th, td { text-align: left; vertical-align: top; padding: 0.2rem 1rem 0.2rem 0; }
"""


def page_files() -> dict[str, Path]:
    """What may be asked for, by name.  No other name opens a file."""
    folder = Path(str(files("regard.viewer"))) / "page"
    found = (path for path in sorted(folder.rglob("*")) if path.suffix in KINDS and path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def routes(description: Callable[[], dict[str, Any]]) -> APIRouter:
    router, there = APIRouter(include_in_schema=False), page_files()

    def sent(name: str) -> Response:
        if name not in there:
            raise Refused(404, "there is no such file")
        path = there[name]
        return Response(path.read_bytes(), headers={"Content-Type": KINDS[path.suffix], "Cache-Control": "no-cache"})

    @router.get("/")
    async def index() -> Response:
        return sent(INDEX)

    @router.get("/page/{name:path}")
    async def file(name: str) -> Response:
        return sent(name)

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(described(description()))

    @router.get("/docs.css")
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    return router


def described(schema: dict[str, Any]) -> str:
    """The description of an API as a page."""
    shapes = schema.get("components", {}).get("schemas", {})
    parts = [
        operation(path, method, about, shapes)
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
    ]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>regard: the API</title>'
    style = '<link rel="stylesheet" href="/docs.css">'
    words = 'What can be asked of this server; <a href="/openapi.json">the same for programs</a> (OpenAPI).'
    return f"{head}{style}<h1>regard</h1><p>{words}</p>{''.join(parts)}</html>"


def operation(path: str, method: str, about: dict[str, Any], shapes: dict[str, Any]) -> str:
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    shape = shapes.get(body.get("$ref", "").rpartition("/")[2], {})
    needed = shape.get("required", [])
    rows = "".join(field(name, one, name in needed) for name, one in shape.get("properties", {}).items())
    table = f"<table><tr><th>field<th>form<th></tr>{rows}</table>" if rows else ""
    told = escape(about.get("description", ""))
    return f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{told}</p>{table}"


def field(name: str, shape: dict[str, Any], needed: bool) -> str:
    default = "" if needed or shape.get("default") is None else f"; by default {shape['default']!r}"
    told = f"{shape.get('description', '')} {'needed' if needed else ''}{default}"
    return f"<tr><td><code>{escape(name)}</code><td>{escape(form(shape))}<td>{escape(told)}</tr>"


def form(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        return " or ".join(one for one in (form(each) for each in shape["anyOf"]) if one != "null")
    if shape.get("type") == "array":
        return f"list of {form(shape['items'])}"
    if "enum" in shape:
        return " or ".join(repr(value) for value in shape["enum"])
    bounds = [f"{word} {shape[key]}" for key, word in BOUNDS.items() if key in shape]
    return " ".join([shape.get("type", "object"), *bounds])


BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
