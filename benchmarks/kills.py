"""Training commands killed at random instants, and started again until they end: is the model the same, bit by bit?

Each command runs undisturbed twice, once in a new interpreter and once in one that has imported torch already; every
file that is the same in both must be the same after any kills: weights, optimizer, vocabulary, encoded text; and no
other file may be left.  Then it is killed, by SIGKILL, at instants drawn uniformly over its whole duration, up to three
times a run, and the same command is given again until it ends.

    python -m benchmarks.kills --kills 100 --seed 1 --results docs/results
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.killed_runs import RUNS, STARTING_MODELS, Words, make_data
from benchmarks.started import Started, start
from benchmarks.writing import run, say
from regard.errors import Problem

MAX_KILLS_OF_A_RUN = 3
FRESH = 0.2  # of the runs begin with a new interpreter, so that kills fall into its start as well
MAX_SECONDS = 600.0  # that a command may take: only against hanging
ALWAYS_COMPARED = (".safetensors", "tokenizer.json")  # how their names end
EQUAL, DIFFERENT, FAILED = "bit-equal", "different", "failed"

Files = dict[str, str]  # the hash of each, by its path in the run's folder


@dataclass(frozen=True)
class Kill:
    """One kill, and what became of its run."""

    command: str
    fresh: bool  # a new interpreter
    instant: float  # seconds after the start of the process
    step: int  # the last that was reported
    resumed_from: int  # the newest checkpoint's step; 0: from the start
    last_file: str  # that was written
    outcome: str = ""
    detail: str = ""  # which files differ, or what the log says


@dataclass(frozen=True)
class Undisturbed:
    """What a command makes if nothing happens to it, and the seconds it takes, by whether its interpreter is new."""

    words: Words
    files: Files  # those that are always the same
    others: set[str]  # files that say how long something took
    seconds: dict[bool, float]


def asked() -> Namespace:
    parser = ArgumentParser("python -m benchmarks.kills", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="how many in all, over all commands alike")
    parser.add_argument("--seed", type=int, default=1, help="of their instants")
    parser.add_argument("--runs", nargs="+", choices=RUNS, metavar="RUN", help=f"of {', '.join(RUNS)}; default: all")
    parser.add_argument("--results", type=Path, help="a folder of results, such as docs/results, for a line a kill")
    return parser.parse_args()


def bench(asked: Namespace) -> None:
    """All kills; a Problem at the end if any run ended differently."""
    os.environ["OMP_NUM_THREADS"] = "1"  # tiny tensors: more threads only wait for each other
    names = asked.runs or list(RUNS)
    began, bad = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        prepare(data)
        for number, name in enumerate(names):
            quota = asked.kills // len(names) + (number < asked.kills % len(names))
            draw = random.Random(f"{asked.seed} {name}")
            for trial, kill in enumerate(kills_of(name, data, Path(folder) / "runs", quota, draw), 1):
                bad += kill.outcome != EQUAL
                say(f"{name} {trial}/{quota}: {json.dumps(asdict(kill), ensure_ascii=False)}")
                if asked.results:
                    tell(asked, kill, trial)
    say(f"{asked.kills} kills in {time.monotonic() - began:.0f} s, {bad} of them in runs that ended differently")
    if bad:
        raise Problem(f"{bad} of {asked.kills} kills are in runs that ended differently; the lines above say which")


def tell(asked: Namespace, kill: Kill, trial: int) -> None:
    from recipes.results import append
    from recipes.run_facts import commit

    known = {name: value for name, value in asdict(kill).items() if name not in ("command", "outcome")}
    append(
        "reliability", folder=asked.results, row=kill.command, data="Killed by SIGKILL at random instants",
        metric="runs that went on", outcome=kill.outcome, trial=trial, seed=asked.seed, commit=commit(), device="CPU",
        command=f"python -m benchmarks.kills --kills {asked.kills} --seed {asked.seed}", **known,
    )  # fmt: skip


def prepare(data: Path) -> None:
    """Make the files, and the models that some commands begin with."""
    make_data(data)
    for name, words in STARTING_MODELS.items():
        finish(start([*words(data), "--out", data / name], data / f"{name}.log"))


def finish(process: Started) -> None:
    code = process.wait(MAX_SECONDS)
    if code != 0:
        process.kill()
        raise Problem(f"{process.command}: {'did not end' if code is None else f'exit code {code}'}: {process.tail()}")


def kills_of(name: str, data: Path, folder: Path, quota: int, draw: random.Random) -> Iterator[Kill]:
    """A command undisturbed, and then killed in run after run, until there are as many kills as asked for."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    calm = undisturbed(RUNS[name](data), folder)
    while quota:
        out = folder / "killed"
        shutil.rmtree(out, ignore_errors=True)
        most = min(quota, draw.randint(1, MAX_KILLS_OF_A_RUN))
        kills, outcome, detail = killed_run(name, calm, out, most, draw)
        if not kills and outcome != EQUAL:
            raise Problem(f"{name}, which ended before it was killed: {outcome}: {detail}")
        quota -= len(kills)
        yield from (replace(kill, outcome=outcome, detail=detail) for kill in kills)


def undisturbed(words: Words, folder: Path) -> Undisturbed:
    seconds, found = {}, []
    for fresh in (True, False):
        out = folder / "calm"
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        finish(start([*words, "--out", out], folder / f"calm-{fresh}.log", fresh))
        seconds[fresh] = time.monotonic() - began
        found.append(files_of(out))
    differ = {path for path in found[0].keys() | found[1].keys() if found[0].get(path) != found[1].get(path)}
    if serious := sorted(path for path in differ if path.endswith(ALWAYS_COMPARED)):
        raise Problem(f"regard {' '.join(map(str, words))}: two runs without a kill differ in {', '.join(serious)}")
    same = {path: hash for path, hash in found[0].items() if path not in differ}
    return Undisturbed(words, same, differ, seconds)


def killed_run(name: str, calm: Undisturbed, out: Path, most: int, draw: random.Random) -> tuple[list[Kill], str, str]:
    """Kill a run, start it again, and so on, `most` times; then let it end.  The kills, the outcome, and its detail."""
    fresh, log = draw.random() < FRESH, out.with_suffix(".log")
    log.unlink(missing_ok=True)
    kills: list[Kill] = []
    while True:
        instant = draw.uniform(0, calm.seconds[fresh]) if len(kills) < most else MAX_SECONDS
        process = start([*calm.words, "--out", out], log, fresh)
        code = process.wait(instant)
        if code is None:
            process.kill()
        if code is not None or instant == MAX_SECONDS:
            return kills, *outcome_of(code, process, calm, out)
        kills.append(Kill(name, fresh, round(instant, 3), *reached(out)))


def outcome_of(code: int | None, process: Started, calm: Undisturbed, out: Path) -> tuple[str, str]:
    if code != 0:
        return FAILED, f"exit code {code}: {process.tail()}"
    found = files_of(out)
    paths = (found.keys() | calm.files.keys()) - calm.others
    differ = sorted(path for path in paths if found.get(path) != calm.files.get(path))
    return DIFFERENT if differ else EQUAL, ", ".join(differ)


def files_of(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def reached(out: Path) -> tuple[int, int, str]:
    """The last step that was reported, that of the newest checkpoint, and the newest file."""
    paths = [path for path in out.rglob("*") if path.is_file()]
    newest = max(paths, key=lambda path: path.stat().st_mtime_ns, default=None)
    metrics = out / "metrics.jsonl"
    steps = re.findall(r'"step": (\d+)', metrics.read_text()) if metrics.exists() else []
    saved = [int(found[1]) for path in out.rglob("step-*") if (found := re.fullmatch(r"step-(\d+)", path.name))]
    name = str(newest.relative_to(out)) if newest else "none"
    name = re.sub(r"\d{3,}", "N", name)  # steps and process ids
    return max(map(int, steps), default=0), max(saved, default=0), name


if __name__ == "__main__":
    run(bench, asked())
