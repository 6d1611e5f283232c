"""The server's memory over many mixed requests: its resident set, threads and file handles, sampled as they go.

    python -m benchmarks.server_memory [--requests 20000] [--results docs/results]

The server runs in a process of its own on loopback, with the models in the package unless folders are given.  Clients
send every kind of request with texts of varied lengths; some requests are wrong, and some clients leave early.  The
samples are appended to the chapter "reliability" as curves, from which `make results` draws the plots.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

WORDS = ["a", "the", "man", "woman", "dog", "red", "old", "house", "runs", "sits", "and", "on", "in", "with", "happily"]
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüß"
WARM_UP_SHARE = 0.1  # of the requests come before the first sample that growth is measured from
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
STOP_SECONDS = 20  # for the server to end in


@dataclass(frozen=True)
class Call:
    """A request: its path and its body (None: a GET)."""

    path: str
    body: Any = None
    leaves: bool = False  # its client leaves before the answer
    half_closes: bool = False  # its client closes its sending side, and reads


@dataclass
class Samples:
    """What the server's process held after so many requests."""

    requests: list[int] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB, resident
    threads: list[int] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)  # 0: the client left

    def take(self, process: int, requests: int) -> None:
        status = Path(f"/proc/{process}/status").read_text()
        self.requests.append(requests)
        self.memory.append(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1000)
        self.threads.append(int(re.findall(r"Threads:\s+(\d+)", status)[0]))
        self.handles.append(len(list(Path(f"/proc/{process}/fd").iterdir())))

    @property
    def warm(self) -> int:
        """The number of the first sample after warm-up."""
        return next(n for n, count in enumerate(self.requests) if count >= WARM_UP_SHARE * self.requests[-1])

    @property
    def quarters(self) -> tuple[float, float]:
        """Mean MB in the first quarter after warm-up, and in the last."""
        after = self.memory[self.warm :]
        count = max(len(after) // 4, 1)
        return fmean(after[:count]), fmean(after[-count:])

    @property
    def growth(self) -> float:
        """MB from the first quarter after warm-up to the last."""
        first, last = self.quarters
        return last - first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="folders to serve; by default the models in the package")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8, help="how many send requests at a time")
    parser.add_argument("--samples", type=int, default=80)
    parser.add_argument("--longest", type=int, default=150, help="words of the longest texts")
    parser.add_argument("--only", default="", help="kinds of requests, separated by commas; by default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, to append to")
    options = parser.parse_args()
    began = time.monotonic()
    with serving(options.models) as (port, process):
        samples = asyncio.run(measure(port, process, options))
    seconds = time.monotonic() - began
    print("MB in the first quarter after warm-up {:.0f}, in the last {:.0f}".format(*samples.quarters))
    print(f"growth {samples.growth:+.1f} MB; statuses {dict(sorted(samples.statuses.items()))}; {seconds:.0f} s")
    if options.results:
        record(samples, seconds, options)


@contextmanager
def serving(models: list[str]) -> Iterator[tuple[int, int]]:
    """`regard serve` on a free port: the port, and the process id."""
    command = [sys.executable, "-m", "regard", "serve", *models, "--device", "cpu", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not (found := re.search(r"http://\S+:(\d+)", line)):
            sys.exit(f"the server did not start: {line}")
        yield int(found[1]), server.pid
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


async def measure(port: int, process: int, options: argparse.Namespace) -> Samples:
    """Send all requests, a few clients at a time, and sample in between."""
    samples, sent = Samples(), 0
    calls = list(requests_of(options))
    looks: list[str] = []

    async def client(own: list[Call]) -> None:
        for call in own:
            samples.statuses[await send(port, call, looks)] += 1

    for number in range(options.samples):
        some = calls[len(calls) * number // options.samples : len(calls) * (number + 1) // options.samples]
        await asyncio.gather(*(client(some[at :: options.clients]) for at in range(options.clients)))
        sent += len(some)
        samples.take(process, sent)
        print(f"{sent:,} requests, {samples.memory[-1]:.0f} MB, {samples.threads[-1]} threads", flush=True)
    return samples


def requests_of(options: argparse.Namespace) -> Iterator[Call]:
    """Requests of all kinds in a seeded order."""
    chance = random.Random(options.seed)
    kinds = {name: kind for name, kind in KINDS.items() if not options.only or name in options.only.split(",")}
    for _ in range(options.requests):
        yield kinds[chance.choice(list(kinds))](chance, options.longest)


def text(chance: random.Random, longest: int) -> str:
    """Words, of which some never come again; mostly few."""
    count = 1 + int(longest * chance.random() ** 4)
    return " ".join(chance.choice(WORDS) if chance.random() < 0.8 else new_word(chance) for _ in range(count))


def new_word(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(2, 12)))


def texts(chance: random.Random, longest: int) -> list[str]:
    return [text(chance, longest) for _ in range(chance.randint(1, 6))]


def translate(chance: random.Random, longest: int) -> Call:
    pair = chance.choice([("de", "en"), ("en", "de")])
    body = {"q": text(chance, longest // 4), "source": pair[0], "target": pair[1], "alternatives": chance.randint(0, 2)}
    return Call("/translate", body)


def complete(chance: random.Random, longest: int) -> Call:
    body = {"prompt": text(chance, longest // 4), "max_tokens": chance.randint(1, 24), "seed": chance.randint(0, 99)}
    return Call("/v1/completions", body | {"stream": chance.random() < 0.5, "n": chance.randint(1, 3)})


def attend(chance: random.Random, longest: int) -> Call:
    """A look at a model, or an array of the newest look, whose name stands for LOOK."""
    if chance.random() < 0.5:
        return Call(f"/attention/LOOK/encoder/{chance.randint(0, 1)}/weights")
    return Call("/attention", {"model": "encoder", "text": text(chance, longest)})


def wrong(chance: random.Random, longest: int) -> Call:
    return chance.choice(
        [
            Call(f"/nothing/{chance.randint(0, 10**9)}"),
            Call("/fill", {"text": text(chance, longest)}),  # nothing to fill
            Call("/fill", {"text": 1, new_word(chance): 2}),
            Call("/v1/embeddings", {"input": ["", "a"]}),
            Call("/classify", {"text": "a", "model": new_word(chance)}),
        ]
    )


def leave(chance: random.Random, longest: int) -> Call:
    call = chance.choice([translate, complete])(chance, longest)
    return Call(call.path, call.body, leaves=True)


def half_close(chance: random.Random, longest: int) -> Call:
    call = chance.choice([translate, complete])(chance, longest)
    return Call(call.path, call.body, half_closes=True)


def state(chance: random.Random, longest: int) -> Call:
    return Call(chance.choice(["/livez", "/readyz", "/metrics", "/models", "/v1/models", "/languages", "/", "/looks"]))


KINDS: dict[str, Callable[[random.Random, int], Call]] = {
    "translate": translate,
    "complete": complete,
    "embed": lambda chance, longest: Call("/v1/embeddings", {"input": texts(chance, longest)}),
    "fill": lambda chance, longest: Call("/fill", {"text": f"{text(chance, longest // 2)} [MASK]"}),
    "classify": lambda chance, longest: Call("/classify", {"text": texts(chance, longest)}),
    "tag": lambda chance, longest: Call("/tag", {"text": texts(chance, longest)}),
    "attend": attend,
    "wrong": wrong,
    "leave": leave,
    "half_close": half_close,
    "state": state,
}


async def send(port: int, call: Call, looks: list[str]) -> int:
    """The status of an answer that was read to its end; 0 where the client left."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request_bytes(call, looks[-1] if looks else "none"))
        if call.leaves:
            await asyncio.sleep(0.005)
            return 0
        if call.half_closes:
            writer.write_eof()
        head, _, body = (await reader.read()).replace(INTERIM, b"").partition(b"\r\n\r\n")
        if call.path == "/attention" and b'{"id":' in body[:8]:
            looks[:] = [json.loads(body)["id"]]
        return int(head.split()[1])
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def request_bytes(call: Call, look: str) -> bytes:
    data = b"" if call.body is None else json.dumps(call.body).encode()
    line = f"{'GET' if call.body is None else 'POST'} {call.path.replace('LOOK', look)} HTTP/1.1"
    headers = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json"
    return f"{line}\r\n{headers}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def record(samples: Samples, seconds: float, options: argparse.Namespace) -> None:
    from recipes.results import append
    from recipes.run_facts import commit

    words = ["python -m benchmarks.server_memory", *options.models, f"--requests {options.requests}"]
    words += [f"--clients {options.clients}", f"--longest {options.longest}", f"--seed {options.seed}"]
    about: dict[str, Any] = {"row": "mixed requests", "data": "Server under mixed requests", "command": " ".join(words)}
    about |= {"seed": options.seed, "commit": commit(), "device": f"CPU, {os.cpu_count()} cores", "seconds": seconds}
    curves: dict[str, Sequence[float]] = {"memory in MB by requests": samples.memory}
    curves |= {"threads by requests": samples.threads, "file handles by requests": samples.handles}
    for metric, values in curves.items():
        points = [list(point) for point in zip(samples.requests, values, strict=True)]
        append("reliability", folder=options.results, metric=metric, points=points, **about)
    first, last = samples.quarters
    numbers = {
        "requests": options.requests,
        "mean MB, first quarter after warm-up": first,
        "mean MB, last quarter": last,
    }
    for metric, value in numbers.items():
        append("reliability", folder=options.results, metric=metric, value=value, **about)


if __name__ == "__main__":
    main()
