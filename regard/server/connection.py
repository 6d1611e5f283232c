"""One HTTP/1.1 connection: every head comes in time, idle connections make room, and a client's end of file is probed.

A client that has sent its request may close its sending side and still read the answer.  A client that leaves closes
its socket, which looks the same from here: an end of file.  What tells them apart is an answer: where nobody listens
any more, the client's system resets the connection.  So after an end of file the server sends `100 Continue`, which
every HTTP/1.1 client has to skip, now and then until the answer begins, and looks whether a reset came back.
HTTP/1.0 has no interim answers: there a client counts as gone when the answer does not begin in time.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.limits import HEAD, Limits

SPARE_CONNECTIONS = 512  # beyond the requests that may be open: for clients that are idle or told to come again
FIRST_PROBE_SECONDS, MAX_PROBE_SECONDS = 0.05, 2.0  # between two probes of a client: twice as long each time


class Connection(H11Protocol):
    """One connection.  `limits` and `idle` are shared by all connections of a server."""

    limits = Limits()
    idle: dict[Connection, None] = {}  # noqa: RUF012  those between two requests, the longest idle first
    head_timer: asyncio.TimerHandle | None = None  # runs while a head is awaited
    unread_timer: asyncio.TimerHandle | None = None  # runs while a client does not read what is sent
    close_timer: asyncio.TimerHandle | None = None  # the same for what is left when the connection is to close
    probe_timer: asyncio.TimerHandle | None = None
    half_closed: float | None = None  # when the client's end of file came

    # a connection begins and ends

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.idle[self] = None
        self.head_timer = self.loop.call_later(self.limits.patience, self.refuse_late_head)
        if len(self.connections) > self.limits.requests + SPARE_CONNECTIONS:
            next(iter(self.idle)).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.pop(self, None)
        for timer in (self.head_timer, self.unread_timer, self.close_timer, self.probe_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close at once, to make room for another connection."""
        self.idle.pop(self, None)
        self.connections.discard(self)  # it is lost only when the loop comes to it
        self.transport.abort()

    # heads

    @property
    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def handle_events(self) -> None:
        super().handle_events()
        if self.is_answering:
            self.idle.pop(self, None)
            self.cancel_head_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.await_head()

    def await_head(self) -> None:
        """Bytes outside a request under way begin the next head, or are the rest of a body that nobody reads."""
        if not self.is_answering and self.head_timer is None and not self.transport.is_closing():
            self.head_timer = self.loop.call_later(self.limits.patience, self.refuse_late_head)

    def cancel_head_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def refuse_late_head(self) -> None:
        self.head_timer = None
        self.refuse(408, b"the head did not come in time")

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn where a head cannot be parsed; one that is too long has a status of its own."""
        long = self.conn.trailing_data[0]
        self.refuse(431 if len(long) > HEAD else 400, msg.encode())

    def refuse(self, status: int, message: bytes) -> None:
        if self.transport.is_closing():
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in (
                h11.Response(status_code=status, headers=[*headers, ("content-length", str(len(message)))]),
                h11.Data(data=message),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.close()

    # answers

    def on_response_complete(self) -> None:
        self.idle[self] = None
        super().on_response_complete()
        if self.is_answering:  # a request that was sent ahead
            return
        if self.half_closed is not None or self.transport.is_closing():
            self.close()
        elif self.conn.trailing_data[0]:
            self._unset_keepalive_if_required()
            self.await_head()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self.close()

    def close(self) -> None:
        """Close once the client has read what was sent; if it does not, after the deadline."""
        self.transport.close()
        if self.close_timer is None and self.transport.get_write_buffer_size():
            self.close_timer = self.loop.call_later(self.limits.deadline, self.transport.abort)

    def pause_writing(self) -> None:
        """A client that does not read may hold an answer no longer than the deadline."""
        super().pause_writing()
        self.unread_timer = self.loop.call_later(self.limits.deadline, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.unread_timer is not None:
            self.unread_timer.cancel()

    # the end of what a client sends

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it; uvicorn never keeps it open
        """Whether the connection stays open for an answer."""
        if not self.is_answering or self.cycle.more_body:
            return False
        self.half_closed = self.loop.time()
        self.probe(FIRST_PROBE_SECONDS)
        return True

    def probe(self, seconds: float) -> None:
        """Whether the client still listens; once its answer has begun, the answer itself shows that."""
        if self.transport.is_closing() or not self.is_answering:
            return
        if self.is_reset() or not (self.cycle.response_started or self.send_interim()):
            self.transport.abort()
            return
        self.probe_timer = self.loop.call_later(seconds, self.probe, min(2 * seconds, MAX_PROBE_SECONDS))

    def send_interim(self) -> bool:
        """Send an interim answer; to HTTP/1.0 clients, only whether there is time left to begin the answer."""
        if self.scope["http_version"] == "1.0":
            return self.half_closed is None or self.loop.time() - self.half_closed < self.limits.patience
        interim = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
        self.transport.write(self.conn.send(interim) or b"")
        return True

    def is_reset(self) -> bool:
        """Whether the client's system answered that nobody listens there."""
        found = self.transport.get_extra_info("socket")
        return found is not None and found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
