"""Faults that servers have had, one test for each: the numbers are those of the list they were taken from."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient
from tiny_models import TEXTS, answer_of, asked, request_bytes, running, save_encoder, save_writer, threaded, wait_until

from regard.commands.encoders import new_reader
from regard.commands.load import load
from regard.commands.serve import named, serve
from regard.errors import Problem, UsageProblem
from regard.server import shelf as shelf_module
from regard.server.app import application
from regard.server.guard import Doors
from regard.server.limits import Limits
from regard.server.queue import Kind
from regard.server.shelf import Named, Shelf
from regard.text.tokenizer import Tokenizer

SOAK = float(os.environ.get("REGARD_SOAK", "3"))  # seconds of too much load; a minute is REGARD_SOAK=60
EVIL = "</script><img src=x onerror=alert(1)>"
QUICK = Limits(patience=0.5, deadline=10)


def is_error(answer: bytes, status: int) -> bool:
    error = json.loads(answer)["error"]
    return set(error) == {"message", "type", "param", "code"} and error["code"] == status


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """Writes long enough that one can leave."""
    return named([str(save_writer(tmp_path_factory.mktemp("long") / "writer", 4096))], "cpu")


def test_58_ten_times_the_load(tmp_path):
    """What is accepted is answered, the rest is told to come again, and the memory stays as it is."""
    folder = save_encoder(tmp_path / "reader", "masked", width=256, layers=6)
    with running(folder, "--requests", 8, "--tokens", 2000) as server:
        statuses, memory = asyncio.run(flood(server, clients=80, seconds=SOAK))
        assert set(statuses) == {200, 429} and statuses[200] > 5 and statuses[429] > statuses[200]
        early, late = max(memory[: len(memory) // 2]), max(memory[len(memory) // 2 :])
        assert late < early * 1.1 + 10, memory
        wait_until(lambda: b"regard_requests_open 1.0" in server.get("/metrics")[1])  # this one
        assert b'regard_tokens_waiting{model="reader"} 0.0' in server.get("/metrics")[1]


async def flood(server, clients: int, seconds: float):
    """Clients that ask again and again; how often each status came, and the memory every so often."""
    end, statuses, memory = time.monotonic() + seconds, {}, []

    async def one(number: int) -> None:
        while time.monotonic() < end:
            status, headers, body = await asked(server.port, "/v1/embeddings", {"input": TEXTS * 3})
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                assert len(json.loads(body)["data"]) == 3 * len(TEXTS)
            else:
                assert int(headers["retry-after"]) >= 1 and is_error(body, 429)
                await asyncio.sleep(0.05)

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(seconds / 20)
            memory.append(server.memory())

    await asyncio.gather(watch(), *(one(number) for number in range(clients)))
    return statuses, memory


def test_59_bodies_and_heads_without_end(models):
    shelf = Shelf(models, QUICK)
    with threaded(shelf) as (port, guard):
        assert asyncio.run(asked(port, "/fill", {}, {"Content-Length": str(2**30)}))[0] == 413
        assert asyncio.run(chunked(port, b"x" * 2**16, 100))[0] == 413
        with socket.create_connection(("127.0.0.1", port), 5) as client:  # who looks for an answer once all is sent
            client.sendall(request_bytes("/fill", {"text": "a" * 20 * 2**20}))
            assert client.recv(2**16).startswith(b"HTTP/1.1 413 ")
        assert asyncio.run(dripped(port, request_bytes("/fill", {"text": "a" * 20}), 0.1))[0] == 408  # its body
        assert asyncio.run(dripped(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", 0.1))[0] == 408  # its head
        headers = {f"x-{number}": "y" for number in range(10**5)}
        assert asyncio.run(asked(port, "/livez", None, headers))[0] == 431
        assert asyncio.run(asked(port, "/livez", None, {"X-Long": "a" * 20_000}))[0] == 431  # not many, and at once
        bomb = gzip.compress(b"x" * 10**6)
        told = {"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}
        assert asyncio.run(asked(port, "/fill", "", told))[0] == 415
        wait_until(lambda: guard.open == 0)
    shelf.close()


async def chunked(port: int, chunk: bytes, times: int):
    """A body that does not say how long it is."""
    head = b"POST /fill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return await sent(port, [head, *[b"%x\r\n%s\r\n" % (len(chunk), chunk)] * times], 0)


async def dripped(port: int, request: bytes, pause: float):
    """A request that comes byte by byte at its end."""
    return await sent(port, [request[:-20], *(bytes([byte]) for byte in request[-20:])], pause)


async def sent(port: int, parts: list[bytes], pause: float):
    """What the server says while it is still being told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.ensure_future(answer_of(reader))
    for part in parts:
        if answer.done() or writer.is_closing():
            break
        writer.write(part)
        with suppress(ConnectionError):
            await writer.drain()
        await asyncio.sleep(pause)
    try:
        return await asyncio.wait_for(answer, 5)
    finally:
        writer.close()


BODIES = {
    "no json": b"{",
    "empty": b"",
    "nan": b'{"text": "a [MASK]", "best": NaN}',
    "huge float": b'{"text": "a [MASK]", "best": 1e999}',
    "half a character": b'{"text": "\\ud800 [MASK]"}',
    "no utf-8": b'{"text": "\xff"}',
    "deep": b'{"text": ' + b"[" * 10**5 + b"]" * 10**5 + b"}",
    "long number": b'{"text": "a", "best": ' + b"9" * 10**4 + b"}",
    "twice": b'{"text": "a [MASK]", "text": "b [MASK]"}',
    "unknown field": b'{"text": "a [MASK]", "texts": 1}',
    "a list": b"[1]",
    "null": b"null",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_60_bodies_that_are_not_what_they_should_be(client, body):
    answer = client.post("/fill", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and is_error(answer.content, answer.status_code)


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data", ""])
def test_60_another_content_type_is_no_json(client, kind):
    answer = client.post("/fill", content=b'{"text": "a [MASK]"}', headers={"Content-Type": kind})
    assert answer.status_code == 422 and is_error(answer.content, 422)


def test_61_no_texts_too_many_and_one_that_is_wrong(client):
    for path, field in {
        "/v1/embeddings": "input",
        "/fill": "text",
        "/tag": "text",
        "/v1/completions": "prompt",
    }.items():
        assert client.post(path, json={field: []}).status_code == 400
        answer = client.post(path, json={field: ["a"] * 10**4})
        assert answer.status_code == 413 and answer.json()["error"]["param"] == field
    assert client.post("/v1/embeddings", json={"input": ["a", ""]}).json()["error"]["param"] == "input"
    answers = client.post("/fill", json={"text": ["the [MASK]", "nothing", "a [MASK]"]}).json()["answers"]
    assert [isinstance(one, dict) for one in answers] == [False, True, False] and "hidden" in answers[1]["error"][
        "message"
    ]
    long = client.post("/v1/embeddings", json={"input": ["the cat", "cat " * 500]}).json()  # loses its end
    assert len(long["data"]) == 2 and long["usage"]["prompt_tokens"] == 4 + 64
    assert client.post("/v1/completions", json={"prompt": "cat " * 500}).json()["error"]["param"] == "prompt"


@pytest.mark.parametrize("value", [0, -1, 10**9, 10**30, "NaN", None, True, [], 0.5])
@pytest.mark.parametrize("field", ["n", "max_tokens", "top_k", "temperature", "top_p", "seed"])
def test_62_numbers_out_of_bounds(client, field, value):
    answer = client.post("/v1/completions", json={"prompt": "a", "max_tokens": 2, field: value})
    assert answer.status_code in (200, 422)
    if value in (-1, "NaN", 10**30) or value == []:
        assert answer.status_code == 422 and answer.json()["error"]["param"] == field


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_63_a_client_that_leaves_frees_its_place(writer, stream):
    shelf = Shelf(writer, Limits(deadline=60))
    with threaded(shelf) as (port, guard):
        desk = shelf.models["writer"].desk
        body = {"prompt": "the cat", "max_tokens": 4000, "n": 2, "stream": stream, "seed": 1}
        one, waits = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
        one.sendall(request_bytes("/v1/completions", body))
        wait_until(lambda: desk.begun)
        waits.sendall(request_bytes("/v1/completions", body | {"n": 3}))
        wait_until(lambda: desk.tokens > 0 or len(desk.begun) > 1)
        waits.close()
        wait_until(lambda: guard.open == 1 and desk.tokens == 0)
        one.close()
        wait_until(lambda: guard.open == 0 and not desk.begun)
        assert shelf.metrics.left._value.get() == 2
    shelf.close()


def test_64_told_to_end_it_finishes_what_it_has(writer, tmp_path):
    folder = save_writer(tmp_path / "writer", 1024, width=64)
    with running(folder) as server:
        status, events, ready = asyncio.run(ended_while_writing(server))
        assert (status, ready) == (200, 503) and events.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert server.process.wait(20) == 0


async def ended_while_writing(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        request_bytes("/v1/completions", {"prompt": "the", "max_tokens": 600, "stream": True, "seed": 1, "n": 8})
    )
    await reader.readuntil(b"data: ")
    server.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    ready, _, _ = await asked(server.port, "/readyz")
    refused, headers, _ = await asked(server.port, "/fill", {"text": "a"})
    assert refused == 503 and "retry-after" in headers
    return 200, await reader.read(), ready


def test_64_a_second_signal_ends_it_at_once(tmp_path):
    folder = save_writer(tmp_path / "writer", 4096)
    with running(folder) as server, socket.create_connection(("127.0.0.1", server.port)) as one:
        one.sendall(request_bytes("/v1/completions", {"prompt": "the", "max_tokens": 4000, "n": 8}))
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert server.process.poll() is None
        assert server.end(timeout=60) == 128 + signal.SIGTERM


def at_desk(shelf: Shelf, work, rows):
    """The answers of rows, asked for as a request does."""
    desk = shelf.models["reader"].desk

    async def ask():
        return await desk.submit(Kind(work, work.__name__, 1000), [(row, 1) for row in rows]).answers()

    return asyncio.run(ask())


def test_65_a_worker_that_dies_begins_again(shelf):
    def dies(rows):
        raise SystemExit(1)
        yield

    [error] = at_desk(shelf, dies, ["a"])
    assert error.status == 503
    assert at_desk(shelf, echoes, ["a", "b"]) == ["a", "b"]


def echoes(rows):
    yield [(row, row.given, True) for row in rows]


def test_65_a_worker_that_hangs_is_told_of(models):
    shelf, release = Shelf(models, Limits(deadline=0.1)), threading.Event()
    with threaded(shelf) as (port, _):
        assert asyncio.run(asked(port, "/readyz"))[0] == 200

        def hangs(rows):
            release.wait(20)
            yield [(row, "late", True) for row in rows]

        waiting = threading.Thread(target=at_desk, args=(shelf, hangs, ["a"]))
        waiting.start()
        wait_until(lambda: shelf.stuck == ["reader"])
        assert asyncio.run(asked(port, "/readyz"))[0] == 503
        assert asyncio.run(asked(port, "/v1/embeddings", {"input": "a"}))[0] == 503
        assert asyncio.run(asked(port, "/livez"))[0] == 200
        release.set()
        waiting.join()
        wait_until(lambda: not shelf.stuck)
        assert asyncio.run(asked(port, "/readyz"))[0] == 200
    shelf.close()


def test_66_one_request_too_large_for_the_memory(shelf):
    def takes(rows):
        torch.empty(sum(row.given for row in rows), dtype=torch.int8)
        yield [(row, row.given, True) for row in rows]

    small, large, other = at_desk(shelf, takes, [10, 2**55, 20])
    assert (small, other) == (10, 20) and "allocate" in str(large)
    assert at_desk(shelf, takes, [30]) == [30]


def test_67_what_cannot_be_is_refused_at_the_start(tmp_path, folders):
    with pytest.raises(UsageProblem, match="deadline 0"):
        Limits(deadline=0)
    with pytest.raises(UsageProblem, match="batch 9"):
        Limits(batch=9, tokens=8)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UsageProblem, match=r"--port \d+ cannot be used"),
    ):
        serve([str(folders["reader"])], port=taken.getsockname()[1])
    with pytest.raises(Problem, match="nothing-there"):
        serve([str(tmp_path / "nothing-there")], port=0)
    with pytest.raises(UsageProblem, match="two models are called 'reader'"):
        serve([str(folders["reader"])] * 2, port=0)


def test_68_what_looks_like_markup_is_text(folders):
    shelf = Shelf([Named(EVIL, load(folders["classifier"], "cpu"))])
    with TestClient(application(shelf), base_url="http://localhost") as client:
        answers = [client.post("/classify", json={"text": EVIL}), client.get("/models"), client.get("/nothing" + EVIL)]
        for answer in answers:
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        for path in ("/", "/docs", "/models"):
            policy = client.get(path).headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        page = client.get("/docs").text
        assert "<script" not in page and "http://" not in page and "https://" not in page and "/v1/embeddings" in page
    shelf.close()


PATHS = ["/../../etc/passwd", "/page/../look.py", "/page/%2e%2e/look.py", "/page//etc/passwd", "/page/..%2flook.py",
         "/page/C:\\windows", "/page/%00", "/attention/x/../../etc", "/page/%252e%252e/look.py"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_69_no_path_leads_out_of_the_page(server, path):
    status, _, body = asyncio.run(asked(server.port, path))
    assert status in (404, 400) and b"root:" not in body and b"import" not in body


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8000"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "10.0.0.1"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://evil.example", "Content-Type": "text/plain"}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Host": "127.0.0.1:9", "Origin": "http://127.0.0.1:9"}, 200),
        ({"Host": "[::1]:80"}, 200),
    ],
)
def test_70_foreign_pages_and_names(client, headers, status):
    body = json.dumps({"text": "the [MASK]"})
    answer = client.post("/fill", content=body, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_70_names_that_were_allowed():
    doors = Doors.of("0.0.0.0", ("Models.example",))
    assert doors.knows("models.example:80") and doors.knows("192.168.0.7:8000") and doors.knows("localhost")
    assert not doors.knows("evil.example") and not Doors.of("127.0.0.1").knows("192.168.0.7")


@pytest.mark.parametrize(
    "name", ["/etc", "../reader", "https://evil.example/model", "bert-base-uncased", "", "reader\0"]
)
def test_71_no_model_is_loaded_because_a_client_asks(client, name):
    answer = client.post("/fill", json={"text": "the [MASK]", "model": name})
    assert answer.status_code == 404 and answer.json()["error"]["param"] == "model"
    for path in ("/load_model", "/reset", "/models/reader"):
        assert client.post(path, json={"model": name}).status_code == 404


def test_72_keys(folders):
    key = "key-0123456789"
    with running(folders["reader"], folders["toy-de-en"], environment={"REGARD_KEY": key}) as server:
        body = {"text": "the [MASK]"}
        wrong = [
            "",
            key,
            "Bearer",
            "Bearer x",
            f"Bearer {key}x",
            f"Digest {key}",
            "Basic !",
            "Bearer \xff\xfe",
            "Bearer ü",
        ]
        for given in (*wrong, "Bearer " + "x" * 10**4):
            status, headers, _ = asyncio.run(asked(server.port, "/fill", body, {"Authorization": given}))
            assert status == 401 and headers["www-authenticate"] == "Bearer"
        for path in ("/models", "/metrics", "/docs", "/v1/models", "/attention/x/y"):
            assert server.get(path)[0] == 401
        assert server.post("/fill", body, {"Authorization": f"Bearer {key}"})[0] == 200
        for path in ("/livez", "/readyz", "/languages", "/", "/page/look.js"):
            assert server.get(path)[0] == 200
        translate = {"q": "a dog", "source": "de", "target": "en"}
        for more, status in (({}, 401), ({"api_key": "x"}, 401), ({"api_key": key}, 200)):
            assert server.post("/translate", translate | more)[0] == status
        server.end()
        out, told = server.process.communicate()
        assert key not in out + told
    with pytest.raises(UsageProblem, match="the key has characters"):
        serve([str(folders["reader"])], port=0, key="schlüssel")


def test_73_clients_together_are_answered_as_alone(shelf):
    with threaded(shelf) as (port, _):
        requests = [("/v1/embeddings", {"input": [text, text[:9]]}) for text in TEXTS] * 4
        requests += [("/fill", {"text": f"{text} [MASK]"}) for text in TEXTS] * 4
        requests += [("/v1/completions", {"prompt": text[:8], "max_tokens": 6, "seed": 3}) for text in TEXTS] * 4

        async def everyone():
            return await asyncio.gather(*(asked(port, *request) for request in requests))

        async def one_by_one():
            return [await asked(port, *request) for request in requests]

        for (status, _, ours), (_, _, alone) in zip(asyncio.run(everyone()), asyncio.run(one_by_one()), strict=True):
            assert status == 200 and alike(json.loads(ours), json.loads(alone))


def alike(one, other) -> bool:
    if isinstance(one, dict):
        return all(alike(one[key], other[key]) for key in one if key not in ("id", "created"))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == pytest.approx(other, abs=1e-4) if isinstance(one, float) else one == other


def test_74_many_requests_leave_nothing_behind(server):
    """Memory, threads, handles and labels are after many requests what they were after some."""
    process = Path(f"/proc/{server.process.pid}")

    async def several(count: int) -> None:
        for number in range(count):
            await asked(server.port, f"/nothing-{number}")
            await asked(server.port, "/v1/embeddings", {"input": f"the cat {number}"})
            await asked(server.port, "/v1/completions", {"prompt": f"{number}", "max_tokens": 2, "user": str(number)})

    def state() -> tuple[int, int, int]:
        wait_until(lambda: handles() < 40)
        return len(list((process / "task").iterdir())), handles(), server.get("/metrics")[1].count(b"\n")

    def handles() -> int:
        return len(list((process / "fd").iterdir()))

    asyncio.run(several(60))
    state()
    before, memory = state(), server.memory()
    asyncio.run(several(200))
    after = state()
    assert after[0] <= before[0] + 1 and after[1] <= before[1] + 2 and after[2] == before[2]
    assert server.memory() < memory + 20


def test_74_a_vocabulary_that_grows_is_made_anew(monkeypatch):
    """ELMo reads words by their characters, and remembers those it has met."""
    reader = new_reader("elmo-tiny", Tokenizer.train("words", ["the cat sat on the mat"], 40))
    monkeypatch.setattr(shelf_module, "RENEWED", 50)
    shelf = Shelf([Named("elmo", reader)])
    with TestClient(application(shelf), base_url="http://localhost") as client:
        before = client.post("/v1/embeddings", json={"input": "axolotl"}).json()["data"]
        for number in range(60):
            assert client.post("/v1/embeddings", json={"input": f"the word{number} sat"}).status_code == 200
        assert len(reader.reading.table()) - reader.tokenizer.size < 60
        assert client.post("/v1/embeddings", json={"input": "axolotl"}).json()["data"] == before
    shelf.close()
