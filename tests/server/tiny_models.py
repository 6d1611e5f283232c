"""Small models of every kind that is served, as folders; and a server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import torch
from torch import nn

from regard.models.bert import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.transformer import Transformer, transformer
from regard.server.app import application
from regard.server.guard import Doors
from regard.server.running import Server, listening
from regard.server.shelf import Shelf
from regard.tasks.finetuned import NAME
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.text.tokenizer import ENCODER, GPT, Tokenizer

LINES = ["the cat sat on the mat.", "a dog and a cat sat too, and the mat was red.", "who sat on the mat ? a dog."]
TEXTS = ["the cat sat", "a dog and a cat sat too, and the mat was red. " * 2, "mat", "who sat on the red mat ?"]
LABELS = {"tag": ["O", "B-ANIMAL", "I-ANIMAL"], "classify": ["bad", "</script><img src=x onerror=alert(1)>"]}


def loud(model: nn.Module) -> None:
    """Numbers that are not small, so that different texts have different answers."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)


def save_encoder(folder: Path, role: str, width: int = 32, longest: int = 64, layers: int = 2) -> Path:
    tokenizer = Tokenizer.train("wordpiece", LINES * 3, 49, special=ENCODER)
    labels = LABELS.get(role, [])
    published = new_encoder("bert", bert(layers, width, 2, tokenizer.size, longest=longest), {role}, len(labels) or 2)
    loud(published.model)
    named = {"id2label": {str(n): label for n, label in enumerate(labels)}} if labels else {}
    published.theirs.update(named | ({NAME: role} if role != "masked" else {}))
    Reader(published, tokenizer).save(folder)
    return folder


def save_writer(folder: Path, longest: int = 64, width: int = 16) -> Path:
    tokenizer = Tokenizer.train("byte-bpe", LINES * 3, 287, special=GPT)
    published = new_encoder("gpt2", gpt2(2, width, 2, tokenizer.size, longest=longest), {"write"})
    loud(published.model)
    Reader(published, tokenizer).save(folder)
    return folder


def save_translator(folder: Path) -> Path:
    tokenizer = Tokenizer.train("words", LINES * 3, 60)
    model = Transformer(transformer(1, 16, 2, 32, vocab=tokenizer.size))
    loud(model)
    Translator(model.eval(), tokenizer, tokenizer).save(folder)
    return folder


def save_all(folder: Path) -> dict[str, Path]:
    """A folder for each kind, by the name it is served under."""
    return {
        "reader": save_encoder(folder / "reader", "masked"),
        "writer": save_writer(folder / "writer"),
        "toy-de-en": save_translator(folder / "toy-de-en"),
        "classifier": save_encoder(folder / "classifier", "classify"),
        "tagger": save_encoder(folder / "tagger", "tag"),
        "finder": save_encoder(folder / "finder", "answer"),
    }


class Running:
    """A server that runs, and how it is asked."""

    def __init__(self, process: subprocess.Popen, address: str):
        self.process, self.address = process, address
        self.host, self.port = "127.0.0.1", int(address.rpartition(":")[2])

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        return fetched(urllib.request.Request(self.address + path, headers=headers or {}))

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, object]:
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json", **(headers or {})}
        )
        status, answer = fetched(request)
        return status, json.loads(answer)

    def memory(self) -> float:
        """What it has of it, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def end(self, sig: int = signal.SIGTERM, timeout: float = 20) -> int:
        self.process.send_signal(sig)
        return self.process.wait(timeout)


def fetched(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=280) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@contextmanager
def running(*arguments: object, environment: dict[str, str] | None = None):
    """`regard serve` on a free port, until the block ends."""
    command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
    told = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **(environment or {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=told)
    try:
        line = process.stdout.readline()
        if not (found := re.search(r"http://\S+", line)):
            raise AssertionError(f"it did not start: {line} {process.stderr.read()}")
        server = Running(process, found[0].replace("localhost", "127.0.0.1"))
        wait_until(lambda: answers(server))
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def answers(server: Running) -> bool:
    try:
        return server.get("/readyz")[0] == 200
    except OSError:
        return False


def wait_until(true, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


async def asked(port: int, path: str, body: object = None, headers: dict[str, str] | None = None):
    """One request on a connection of its own: its status, headers and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes(path, body, headers))
        return await answer_of(reader)
    finally:
        writer.close()


def request_bytes(path: str, body: object = None, headers: dict[str, str] | None = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    told = {
        "Host": "localhost",
        "Content-Length": str(len(data)),
        "Content-Type": "application/json",
        **(headers or {}),
    }
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + data


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    if "content-length" in headers:
        return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers, await reader.read()


@contextmanager
def threaded(shelf: Shelf, doors: Doors | None = None):
    """A server on a socket, in a thread of this process, whose inside can be looked at; and its guard."""
    guard, socket = application(shelf, doors), listening("127.0.0.1", 0)
    server = Server(guard, lambda: None)
    thread = Thread(target=server.run, args=([socket],), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield socket.getsockname()[1], guard
    finally:
        server.should_exit = True
        thread.join(10)
