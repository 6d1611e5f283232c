"""All benchmarks, one after the other, each in a process of its own and within a time.  One that fails is told of, and
the others go on.

    python -m benchmarks.all --device cuda --results docs/results --only train-bert train-mixed
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from benchmarks.writing import run, say
from regard.errors import Problem

ON_A_GPU = {  # the parts, and how each is called
    "train-bert": "train --loads bert --seconds 8",
    "train-mixed": "train --loads bert-mixed --seconds 8",
    "train-gpt2": "train --loads gpt2 --seconds 8",
    "train-lstm": "train --loads lstm --seconds 5",
    "finetune": "finetune --repetitions 4",
    "embed": "embed --model bert-base --made --texts 8192 --batch 32",
    "generate": "generate --model gpt2-small --prompts 1 32 --most 128 --repetitions 3",
    "translate": "translate --batch 128 --steps 1 --beams 1 5 --repetitions 3",
    "memory": "memory --batch 32 --repetitions 2",
    "scaling": "scaling --seconds 0.2",
}
ON_A_CPU = {
    "train": "train --small --seconds 3 --repetitions 3",
    "finetune": "finetune --model bert-mini --repetitions 3",
    "embed": "embed --model bert-small --made --texts 256 --repetitions 3",
    "generate": "generate --model gpt2-mini --prompts 1 8 --most 32 --repetitions 3",
    "translate": "translate --batch 16 --steps 1 --beams 1 4 --repetitions 3",
    "memory": "memory --model bert-mini --repetitions 2",
    "scaling": "scaling --axes length --seconds 0.1",
}


def asked() -> Namespace:
    names = list(dict.fromkeys([*ON_A_GPU, *ON_A_CPU]))
    parser = ArgumentParser("regard bench all", description=__doc__.partition("\n\n")[0].replace("\n", " "))
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help=f"of {', '.join(names)}")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--limit", type=int, default=300, help="seconds for each part")
    parser.add_argument("--within", type=int, default=3600, help="seconds for all; what would come later is left out")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="a folder, where the numbers go")
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, to add the medians to")
    return parser.parse_args()


def bench(asked: Namespace) -> None:
    parts = chosen(ON_A_GPU if asked.device.startswith("cuda") else ON_A_CPU, asked)
    begun, ended = time.monotonic(), dict[str, str]()
    for name, words in parts.items():
        left = asked.within - (time.monotonic() - begun)
        say(f"== {name}")
        start = time.monotonic()
        ended[name] = (
            part(command(name, words, asked), min(asked.limit, left)) if left > 0 else "there was no time left"
        )
        say(f"== {name}: {ended[name]}, {time.monotonic() - start:.0f} s")
    print(*(f"{name}: {how}" for name, how in ended.items()), sep="\n")
    failed = [name for name, how in ended.items() if how != "done"]
    if failed:
        raise Problem(f"not done: {', '.join(failed)}. Try them again by --only {' '.join(failed)}")


def chosen(parts: Mapping[str, str], asked: Namespace) -> dict[str, str]:
    elsewhere = [name for name in asked.only or () if name not in parts]
    if elsewhere:
        raise Problem(f"on {asked.device} there is no {', '.join(elsewhere)}; there are: {', '.join(parts)}")
    return {name: words for name, words in parts.items() if not asked.only or name in asked.only}


def command(name: str, words: str, asked: Namespace) -> list[str]:
    benchmark, *options = shlex.split(words)
    where = ["--device", asked.device, "--threads", str(asked.threads), "--out", str(asked.out / f"{name}.json")]
    results = ["--results", str(asked.results)] if asked.results else []
    return [sys.executable, "-m", f"benchmarks.{benchmark}", *options, *where, *results]


def part(words: list[str], seconds: float) -> str:
    """How it ended.  One that takes too long is ended with all that it started."""
    process = subprocess.Popen(words, start_new_session=True)
    try:
        code = process.wait(seconds)
        return "done" if code == 0 else f"ended with exit code {code}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"not done in {seconds:.0f} s"


if __name__ == "__main__":
    run(bench, asked())
