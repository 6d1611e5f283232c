"""Connections: each head in time, idle ones make room, and the end of what a client sends is not its leaving."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from tiny_models import asked, request_bytes, threaded, wait_until

from regard.server import connection
from regard.server.limits import Limits
from regard.server.queue import Kind
from regard.server.shelf import Shelf

PATIENT = Limits(deadline=20)


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


def answer(client: socket.socket) -> bytes:
    """One answer that says how long it is."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += client.recv(2**16)
    head, _, body = found.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
    while len(body) < length:
        body += client.recv(2**16)
    return head + b"\r\n\r\n" + body


def rest(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    while part := client.recv(2**16):
        found += part
    return found


@pytest.mark.parametrize("begun", [b"G", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"])
def test_the_second_head_of_a_connection_has_its_limit_too(models, begun):
    shelf = Shelf(models, Limits(patience=0.3))
    with threaded(shelf) as (port, _), opened(port) as client:
        client.sendall(request_bytes("/livez"))
        assert answer(client).startswith(b"HTTP/1.1 200 ")
        client.sendall(begun)
        assert rest(client).startswith(b"HTTP/1.1 408 ")
    shelf.close()


def test_dripping_bytes_do_not_start_the_limit_again(models):
    shelf = Shelf(models, Limits(patience=0.3))
    with threaded(shelf) as (port, _), opened(port) as client:
        client.sendall(request_bytes("/livez"))
        answer(client)
        client.settimeout(0.05)
        for byte in b"GET /livez HTTP/1.1\r\nX: " + b"y" * 1000:
            client.sendall(bytes([byte]))
            try:
                assert client.recv(2**16).startswith(b"HTTP/1.1 408 ")
                break
            except TimeoutError:
                pass
        else:
            pytest.fail("the head was awaited for ever")
    shelf.close()


def test_a_body_that_drips_after_its_answer_is_cut_off(models):
    """Refused by its head alone, a request's body is not read; it may not hold the connection either."""
    shelf = Shelf(models, Limits(patience=0.3))
    with threaded(shelf) as (port, _), opened(port) as client:
        head = request_bytes("/fill", None, {"Host": "evil.example", "Content-Length": "1000"})
        client.sendall(head.replace(b"GET", b"POST"))
        assert answer(client).startswith(b"HTTP/1.1 421 ")
        client.sendall(b"x")
        assert rest(client) == b""
    shelf.close()


def test_an_idle_connection_is_closed(models):
    shelf = Shelf(models, Limits(keep_alive=0.2))
    with threaded(shelf) as (port, _), opened(port) as client:
        client.sendall(request_bytes("/livez"))
        answer(client)
        assert client.recv(1) == b""
    shelf.close()


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="connections are counted in /proc")
def test_an_answer_that_nobody_reads_is_given_up(models):
    """Closing waits for what was sent to be read; not for ever."""
    shelf = Shelf(models, Limits(keep_alive=0.2, deadline=0.5, requests=1, body=2**22))
    with threaded(shelf) as (port, guard):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(request_bytes("/openapi.json") * 400)
        wait_until(lambda: guard.open == 0 and connections_of(port) == 0)
        client.close()
    shelf.close()


def connections_of(port: int) -> int:
    """Connections that are still open on the server's side, as the kernel has them."""
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == "01" for line in lines)


@pytest.mark.parametrize("begun", [b"", b"GET /livez HTTP/1.1\r\n", request_bytes("/livez")])
def test_when_connections_are_exhausted_the_longest_idle_is_closed(models, monkeypatch, begun):
    """However many there are, /livez and /readyz are answered, and so are requests."""
    monkeypatch.setattr(connection, "SPARE_CONNECTIONS", 8)
    shelf = Shelf(models, Limits(requests=4, patience=60, keep_alive=60))
    with threaded(shelf) as (port, _):
        clients = []
        for _ in range(40):
            clients.append(opened(port))
            clients[-1].sendall(begun)
            if begun.endswith(b"\r\n\r\n"):
                assert answer(clients[-1]).startswith(b"HTTP/1.1 200 ")
            assert asyncio.run(asked(port, "/livez"))[0] == 200
        assert asyncio.run(asked(port, "/readyz"))[0] == 200
        assert asyncio.run(asked(port, "/fill", {"text": "the [MASK]"}))[0] == 200
        clients[-1].sendall(request_bytes("/livez")[len(begun) if not begun.endswith(b"\r\n\r\n") else 0 :])
        assert answer(clients[-1]).startswith(b"HTTP/1.1 200 ")  # the newest is still there
        assert is_closed(clients[0])
        for client in clients:
            client.close()
    shelf.close()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


class Gate:
    """Work that waits at a desk until it is let go."""

    def __init__(self, shelf: Shelf, name: str):
        self.go, self.desk = threading.Event(), shelf.models[name].desk

    def __enter__(self) -> Gate:
        async def submit() -> None:
            self.desk.submit(Kind(self.work, "gate", 10), [("held", 1)])

        asyncio.run(submit())
        wait_until(lambda: self.desk.begun)
        return self

    def work(self, rows):
        self.go.wait(20)
        yield [(row, None, True) for row in rows]

    def __exit__(self, *_: object) -> None:
        self.go.set()


REQUESTS = {
    "fill": ("reader", "/fill", {"text": "the [MASK]"}),
    "translate": ("toy-de-en", "/translate", {"q": "the cat", "target": "en"}),
    "complete": ("writer", "/v1/completions", {"prompt": "the", "max_tokens": 4}),
    "stream": ("writer", "/v1/completions", {"prompt": "the", "max_tokens": 4, "stream": True}),
}


@pytest.mark.parametrize("name, path, body", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_client_that_half_closes_gets_its_answer(models, name, path, body, version):
    shelf = Shelf(models, PATIENT)
    with threaded(shelf) as (port, guard), opened(port) as client:
        with Gate(shelf, name):
            client.sendall(request_bytes(path, body).replace(b"HTTP/1.1", version))
            wait_until(lambda: guard.open == 1)
            client.shutdown(socket.SHUT_WR)
            time.sleep(0.3)  # several probes
            assert guard.open == 1
        found = rest(client)
        while found.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
            assert version == b"HTTP/1.1"  # older clients know no interim answers
            found = found.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200 ")
        assert b"[DONE]" in found or json.loads(found.partition(b"\r\n\r\n")[2])
        wait_until(lambda: guard.open == 0)
        assert shelf.metrics.left._value.get() == 0
    shelf.close()


def close(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def half_close_then_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    client.close()


@pytest.mark.parametrize("leave", [close, reset, half_close_then_close])
@pytest.mark.parametrize("name, path, body", REQUESTS.values(), ids=REQUESTS)
def test_63_a_client_that_leaves_is_noticed_while_it_waits(models, name, path, body, leave):
    shelf = Shelf(models, PATIENT)
    with threaded(shelf) as (port, guard), Gate(shelf, name):
        client = opened(port)
        client.sendall(request_bytes(path, body))
        wait_until(lambda: shelf.models[name].desk.tokens > 0)
        leave(client)
        wait_until(lambda: guard.open == 0 and shelf.models[name].desk.tokens == 0)
        assert shelf.metrics.left._value.get() == 1
    shelf.close()


def test_63_an_http_1_0_client_that_sends_no_more_is_waited_for_only_so_long(models):
    """It cannot be probed, and proxies speak HTTP/1.0 by default."""
    shelf = Shelf(models, Limits(deadline=60, patience=0.3))
    with threaded(shelf) as (port, guard), Gate(shelf, "reader"), opened(port) as client:
        client.sendall(request_bytes("/fill", {"text": "the [MASK]"}).replace(b"HTTP/1.1", b"HTTP/1.0"))
        wait_until(lambda: shelf.models["reader"].desk.tokens > 0)
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: guard.open == 0)
        assert is_closed(client)
    shelf.close()


def test_requests_sent_ahead_are_all_answered_though_the_client_half_closes(models):
    shelf = Shelf(models, PATIENT)
    with threaded(shelf) as (port, _), opened(port) as client:
        client.sendall(
            request_bytes("/livez") + request_bytes("/fill", {"text": "the [MASK]"}) + request_bytes("/models")
        )
        client.shutdown(socket.SHUT_WR)
        assert rest(client).count(b"HTTP/1.1 200 ") == 3
    shelf.close()
