"""What stands before the application: who may ask, how much, how slowly; and what every answer carries.

Host is checked against DNS rebinding and Origin against requests that another site's page makes a browser send.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from regard.server.errors import Refused, error_response
from regard.server.limits import HEAD, Limits
from regard.server.metrics import Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/livez", "/readyz")  # for whoever keeps the server running: no key, and answered whatever the load
KEYLESS = (*OPEN, "/", "/languages")  # the page asks for the key itself; LibreTranslate's clients ask without one
PAGE = "/page/"  # its files, which are everyone's
KEY_INSIDE = "/translate"  # and send it inside the request, which is looked at there
SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
CHALLENGE = {"WWW-Authenticate": "Bearer"}
IDENTITY = re.compile(r"[\w.-]{1,64}", re.ASCII)
PAUSE = 0.2  # seconds after which a body that is not wanted has stopped coming


@dataclass(frozen=True)
class Doors:
    """By which names the server may be called, and with which key."""

    hosts: tuple[str, ...] = LOOPBACK
    addresses: bool = False  # any IP address will do: it is no name that somebody could point elsewhere
    key: str = ""

    @classmethod
    def of(cls, host: str, more: tuple[str, ...] = (), key: str = "") -> Doors:
        """As they follow from the address that is listened on."""
        return cls((*LOOPBACK, host.lower(), *(name.lower() for name in more)), not is_loopback(host), key)

    def check(self, method: str, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self.knows(host):
            remedy = "start it with --allow-host if that is its name"
            raise Refused(421, f"this server is not called {host[:100]!r}; {remedy}")
        origin = headers.get("origin")
        if method not in SAFE and origin is not None and urlsplit_netloc(origin) != host.lower():
            raise Refused(403, f"a page of {origin[:100]!r} may not ask here")
        given = headers.get("authorization")
        if path not in KEYLESS and not path.startswith(PAGE) and not (path == KEY_INSIDE and given is None):
            self.admit_key(key_in(given or ""))

    def admit_key(self, given: str) -> None:
        """Compared in a time that does not tell how much of it was right."""
        if self.key and not hmac.compare_digest(given.encode("utf-8", "replace"), self.key.encode()):
            raise Refused(401, "give the server's key: Authorization: Bearer KEY", headers=CHALLENGE)

    def knows(self, host: str) -> bool:
        name = name_of(host)
        return name in self.hosts or (self.addresses and is_address(name))


def key_in(authorization: str) -> str:
    """The key of an Authorization header."""
    scheme, _, given = authorization.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def name_of(host: str) -> str:
    """A Host header without its port, and an address without its brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def urlsplit_netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """Around the application.  It counts what is open, and lets nothing new in when the server is to end."""

    def __init__(self, app: Any, doors: Doors, limits: Limits, metrics: Metrics):
        self.app, self.doors, self.limits, self.metrics = app, doors, limits, metrics
        self.open = 0
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers, began, answer = Headers(scope=scope), time.monotonic(), Answer(send, scope, self.draining)
        try:
            if head_size(scope) > HEAD:  # one that came at once, and was not too long while it came
                raise Refused(431, f"a request's head may have {HEAD:,} bytes; send fewer headers")
            self.doors.check(scope["method"], scope["path"], headers)
            await self.let_in(scope, receive, answer, headers)
        except Refused as refused:
            if not answer.status:
                answer.closes = answer.closes or refused.status in (408, 413)  # the rest of a body is not read
                await error_response(refused)(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, answer.status or "none").inc()
            self.metrics.seconds.labels(route).observe(time.monotonic() - began)

    async def let_in(self, scope: Scope, receive: Receive, answer: Answer, headers: Headers) -> None:
        if scope["path"] in OPEN:
            await self.app(scope, receive, answer)
            return
        if self.draining:
            raise Refused(503, "the server is about to end", headers={"Retry-After": "5"})
        if self.open >= self.limits.requests:
            raise Refused(429, "too many requests are open already; try again later", headers={"Retry-After": "1"})
        self.count(1)
        try:
            body = await self.body(receive, headers)
            await self.app(scope, replayed(body, receive), answer)
        finally:
            self.count(-1)

    def count(self, more: int) -> None:
        self.open += more
        self.metrics.open.set(self.open)

    async def body(self, receive: Receive, headers: Headers) -> bytes:
        """All of a request's body, if it is not too long in either sense."""
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "a compressed body is not read; send it as it is")
        said = headers.get("content-length", "")
        too_long = said.isdecimal() and (len(said) > 18 or int(said) > self.limits.body)
        found = None if too_long else await self.read(receive)
        if found is None:
            await self.drop(receive)
            raise Refused(413, f"a body may have {self.limits.body:,} bytes; send less at a time")
        return found

    async def read(self, receive: Receive) -> bytes | None:
        """A body; or None, if it is longer than it may be."""
        found, more = bytearray(), True
        try:
            async with asyncio.timeout(self.limits.patience):
                while more and len(found) <= self.limits.body:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(499, "the client left")
                    found += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused(408, f"the body did not come within {self.limits.patience:g} seconds") from None
        return bytes(found) if len(found) <= self.limits.body else None

    async def drop(self, receive: Receive) -> None:
        """Read on for a while, and keep nothing: who is cut off while still sending may never see the answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.patience):
                while (await asyncio.wait_for(receive(), PAUSE)).get("more_body"):
                    pass


def head_size(scope: Scope) -> int:
    """Bytes of a request's address and headers."""
    line = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


class Answer:
    """`send`, with what every answer carries added to it."""

    def __init__(self, send: Send, scope: Scope, closes: bool):
        self.send, self.closes, self.status = send, closes, 0
        asked = Headers(scope=scope).get("x-request-id", "")
        self.identity = asked if IDENTITY.fullmatch(asked) else secrets.token_hex(8)

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["X-Request-Id"] = self.identity
            if self.closes:
                headers["Connection"] = "close"
        await self.send(message)


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, for the application; then whether the client is still there."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
