"""A server that runs: on its socket, until it is told to end, and then until what it accepted is done."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import UsageProblem
from regard.server.guard import Guard
from regard.server.limits import HEAD, Limits
from regard.server.memory import trim_heaps

SPARE = 512  # connections beyond the requests that may be open: for those who are told to come again, or idle
log = logging.getLogger("regard.server")


def listening(host: str, port: int) -> socket.socket:
    """A socket of its own, so that a port that is taken is told before any model is loaded."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, OverflowError) as error:
        raise UsageProblem(f"--host {host} --port {port} cannot be used ({error}); choose another port") from None
    return found


class Protocol(H11Protocol):
    """One connection.  Its head must come in time and be short; there are only so many connections."""

    limits = Limits()
    waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.requests + SPARE:
            transport.abort()
            return
        self.waits = self.loop.call_later(self.limits.patience, self.tell, 408, b"the head did not come in time")

    def handle_events(self) -> None:
        super().handle_events()
        if self.waits is not None and self.cycle is not None:
            self.waits.cancel()
            self.waits = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waits is not None:
            self.waits.cancel()
            self.waits = None
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """uvicorn's word for a head that cannot be read; one that is too long has a number of its own."""
        long = self.conn.trailing_data[0]
        self.tell(431 if len(long) > HEAD else 400, msg.encode())

    def tell(self, status: int, message: bytes) -> None:
        if self.transport.is_closing():
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        for event in (
            h11.Response(status_code=status, headers=[*headers, ("content-length", str(len(message)))]),
            h11.Data(data=message),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """Told to end, it takes no new work, and ends when what it took is done; told twice, it ends at once."""

    def __init__(self, guard: Guard, ready: Callable[[], None]):
        protocol = type("Protocol", (Protocol,), {"limits": guard.limits})
        super().__init__(
            uvicorn.Config(
                guard,
                http=protocol,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEAD,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=30,
            )
        )
        self.guard, self.ready = guard, ready
        self.drained = True
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.trimming = asyncio.ensure_future(trim_heaps(lambda: self.server_state.total_requests))
        self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.trimming.cancel()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.guard.draining:
            os._exit(128 + sig)
        self.guard.draining = True
        if self.loop is None:
            self.should_exit = True
        else:
            self.loop.call_soon_threadsafe(self.begin_to_end)

    def begin_to_end(self) -> None:
        self.ending = asyncio.ensure_future(self.drain())

    async def drain(self) -> None:
        """Wait for what is open."""
        if self.guard.open:
            log.warning("ending, once %d requests are answered", self.guard.open)
        try:
            async with asyncio.timeout(self.guard.limits.grace):
                while self.guard.open:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.drained = False
            log.error("%d requests were not done within %g seconds", self.guard.open, self.guard.limits.grace)
        self.should_exit = True
