"""A server that runs: on its socket, until it is told to end, and then until what it accepted is done."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import cast

import uvicorn

from regard.errors import UsageProblem
from regard.server.connection import SPARE_CONNECTIONS, Connection
from regard.server.guard import Guard
from regard.server.limits import HEAD
from regard.server.memory import trim_heaps

OTHER_FILES = 128  # that a process has open beside its connections
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


def allow_file_handles(count: int) -> None:
    """Raise the soft limit of open files to this many, as far as the hard limit allows; nothing outside Unix."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Server(uvicorn.Server):
    """Told to end, it takes no new work, and ends when what it took is done; told twice, it ends at once."""

    def __init__(self, guard: Guard, ready: Callable[[], None]):
        protocol = type("Connection", (Connection,), {"limits": guard.limits, "idle": {}})
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
                timeout_keep_alive=cast(int, guard.limits.keep_alive),  # uvicorn hands it to call_later
            )
        )
        self.guard, self.ready = guard, ready
        self.drained = True
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        allow_file_handles(self.guard.limits.requests + SPARE_CONNECTIONS + OTHER_FILES)
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
