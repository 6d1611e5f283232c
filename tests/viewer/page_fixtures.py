"""For tests of the page: a server that keeps a list of what was asked, a browser whose complaints are kept, and ways to
read what is shown."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from page_looks import HOSTILE, SyntheticLook

PAGE = Path(__file__).parents[2] / "regard" / "viewer" / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


# ---- the server -----------------------------------------------------------------------------------------------------


@dataclass
class Served:
    address: str
    looks: dict[str, SyntheticLook]  # by the model's name, as the form sends it
    asked: list[str]  # every path that was asked for
    key: str = ""  # what has to be given, if anything
    given: list[str] = field(default_factory=list)  # looks that the server was started with
    forgotten: set[str] = field(default_factory=set)  # looks that are no longer kept, until they are asked for again


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_GET(self) -> None:
        self.served.asked.append(self.path)
        if self.locked():
            return self.refuse(401, "a key is needed")
        match self.path.strip("/").split("/"):
            case [""]:
                self.answer((PAGE / "index.html").read_bytes(), "text/html; charset=utf-8")
            case ["models"]:
                models = [
                    {"name": name, "kind": one.header["kind"], "tasks": ["look"]}
                    for name, one in self.served.looks.items()
                ]
                self.answer({"models": models})
            case ["looks"]:
                self.answer([{"id": name, "look": self.served.looks[name].header} for name in self.served.given])
            case ["file"]:
                self.answer(as_file(list(self.served.looks.values())), "text/html; charset=utf-8")
            case ["page", *path]:
                kind = {".js": "text/javascript", ".css": "text/css"}[Path(path[-1]).suffix]
                self.answer((PAGE / "/".join(path)).read_bytes(), f"{kind}; charset=utf-8")
            case ["attention", name, *_] if name in self.served.forgotten:
                self.refuse(404, "this look is no longer kept")
            case ["attention", name, *block] if "/".join(block) in self.served.looks[name].blocks:
                array = self.served.looks[name].block("/".join(block))
                self.answer(array.tobytes(), "application/octet-stream", shape=array.shape)
            case _:
                self.refuse(404, f"there is nothing at {self.path}")

    def do_POST(self) -> None:
        self.served.asked.append(self.path)
        if self.locked():
            return self.refuse(401, "a key is needed")
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = request["model"]
        self.served.forgotten.discard(name)
        if "refuse" in request["text"]:
            return self.refuse(422, f"the text is refused: {HOSTILE}")
        self.answer({"id": name, "look": self.served.looks[name].header})

    def locked(self) -> bool:
        free = self.path == "/" or self.path.startswith("/page/")
        return bool(self.served.key) and not free and self.headers["Authorization"] != f"Bearer {self.served.key}"

    def refuse(self, code: int, message: str) -> None:
        self.answer({"error": {"message": message, "type": "x", "param": None, "code": code}}, code=code)

    def answer(
        self, body: Any, kind: str = "application/json", *, code: int = 200, shape: tuple[int, ...] = ()
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Content-Security-Policy": POLICY}
        if shape:
            headers["X-Shape"] = ",".join(map(str, shape))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # a page that was left no longer listens
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def as_file(looks: list[SyntheticLook]) -> bytes:
    """The page with looks in it, as a file has them: the first layer's weights whole, the second's in two bytes."""
    parts = [f'<script type="application/json" id="looks">{as_json([one.header for one in looks])}</script>']
    for number, look in enumerate(looks):
        name = look.header["attentions"][0]["name"]
        for layer, kind in enumerate(("float32", "uint16")):
            array = look.block(f"{name}/{layer}/weights")
            numbers = array if kind == "float32" else np.round(array * 65535).astype("<u2")
            shape = ",".join(map(str, array.shape))
            text = base64.b64encode(numbers.tobytes()).decode()
            about = (
                f'type="text/plain" id="block-{number}-{name}/{layer}/weights" data-shape="{shape}" data-type="{kind}"'
            )
            parts.append(f"<script {about}>{text}</script>")
    return (PAGE / "index.html").read_text().replace("<body>", "<body>" + "".join(parts)).encode()


def as_json(value: Any) -> str:
    return json.dumps(value).replace("<", "\\u003c")


@contextmanager
def serving(looks: dict[str, SyntheticLook]) -> Iterator[Served]:
    """A server of the page on loopback, with these looks by their model's name."""
    handler = type("OneHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.served = Served(f"http://127.0.0.1:{server.server_port}/", looks, [])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield handler.served
        server.shutdown()
        thread.join()


# ---- the browser ----------------------------------------------------------------------------------------------------


@contextmanager
def opened_page(browser: Any, served: Served, **options: Any) -> Iterator[Any]:
    """An empty page; at its end nothing may have gone wrong in it, and no request may have left the host."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    problems: list[str] = []
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('violates', e.violatedDirective))"
    )
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not inside(request.url, served) else None)
    page.problems = problems
    yield page
    hacked = page.evaluate("window.hacked")
    context.close()
    assert hacked is None
    assert not problems


def inside(url: str, served: Served) -> bool:
    return url.startswith((served.address, "data:", "blob:"))


def settle(page: Any) -> None:
    """Until the view that was asked for is drawn (wait_for_function would evaluate text, which the policy forbids)."""
    page.wait_for_selector("#stage[aria-busy=false] > .view:not(.pending)")


def show(page: Any, served: Served, model: str, view: str = "", **choice: Any) -> None:
    """Opens the page on a model's look, in a view."""
    chosen = "&".join(f"{name}={value}" for name, value in {"view": view, **choice}.items())
    page.goto("about:blank")
    page.goto(f"{served.address}#{chosen}")
    settle(page)
    if page.locator("#about h1").text_content() != served.looks[model].header["model"]:
        if not page.locator("#model").is_visible():
            page.click("summary")
        page.select_option("#model", model)
        page.click("form button[type=submit]")
        page.locator("#about h1").get_by_text(served.looks[model].header["model"], exact=True).wait_for()
        settle(page)


def box_of(locator: Any) -> Any:
    """Where something lies on the page.  A view that is drawn anew takes it away for a moment, and it has no place."""
    for _ in range(100):
        locator.wait_for()
        if (box := locator.bounding_box()) is not None:
            return box
    raise AssertionError(f"{locator} is never there for long")


# ---- what is shown --------------------------------------------------------------------------------------------------


def chosen(page, name):
    """A part of the page's state; a set as a list."""
    as_list = "state[name] instanceof Set ? [...state[name]] : state[name]"
    return page.evaluate(f"(name) => import('/page/state.js').then(({{state}}) => {as_list})", name)


def press(page, keys):
    for key in keys.split():
        page.keyboard.press(key)
        settle(page)


def cell(page, query, key, picture=0):
    """What a picture says of a cell, reached by arrow keys: (words, number)."""
    over = page.locator(".heatmap .over").nth(picture)
    for name in ["Home", *["ArrowDown"] * query, *["ArrowRight"] * key]:
        over.press(name)
    return said(page.locator(".heatmap").nth(picture).locator(".tooltip"))


def said(tooltip):
    """(words, number), once it says them: a picture may be about to be drawn."""
    from playwright.sync_api import expect

    expect(tooltip).to_have_text(re.compile(r"\d\.\d"))
    words, number = re.fullmatch(r"(.*?)  (-?\d+\.\d+).*", tooltip.text_content(), re.DOTALL).groups()
    return words, float(number)


def weights(served, model, attention, layer):
    return served.looks[model].block(f"{attention}/{layer}/weights").astype(np.float64)  # (H, Q, K)


# ---- how much is drawn ----------------------------------------------------------------------------------------------

COUNT_WORK = """() => {
  const work = window.work = { calls: 0, pixels: 0, nodes: 0 };
  const counted = (owner, name, count) => {
    const original = owner[name];
    owner[name] = function (...given) { count(...given); return original.apply(this, given); };
  };
  for (const { prototype } of [CanvasRenderingContext2D, OffscreenCanvasRenderingContext2D]) {
    for (const name of ["fillRect", "strokeRect", "fillText", "drawImage", "fill", "stroke"])
      counted(prototype, name, () => work.calls++);
    counted(prototype, "putImageData", (image) => { work.pixels += image.width * image.height; });
  }
  counted(document, "createElement", () => work.nodes++);
  counted(document, "createElementNS", () => work.nodes++);
}"""


def count_work(page) -> None:
    page.evaluate(COUNT_WORK)


def work_of(page, action) -> dict[str, int]:
    """What the page draws and makes during an action: calls on canvases, pixels of pictures, elements."""
    page.evaluate("Object.assign(window.work, { calls: 0, pixels: 0, nodes: 0 })")
    action()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate("({ ...window.work })")
