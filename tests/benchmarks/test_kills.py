"""The harness that kills training commands: what it finds, and what it must not overlook."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import kills
from benchmarks.killed_runs import RUNS
from benchmarks.kills import Undisturbed, files_of, kills_of, prepare, reached, undisturbed
from regard.errors import Problem

FILES = {"model/model.safetensors": b"weights", "model/tokenizer.json": b"pieces"}


class Pretended:
    """A command that is under way when it is first waited for, and has ended with its files the next time."""

    def __init__(self, out: Path, files: dict[str, bytes], calls: Iterator[int], code: int = 0):
        self.out, self.files, self.calls, self.code, self.command = out, files, calls, code, "regard"

    def wait(self, seconds: float) -> int | None:
        if next(self.calls) == 0:
            return None
        for name, content in self.files.items():
            place = self.out / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return self.code

    def kill(self) -> None:
        pass

    def tail(self) -> str:
        return "what the log says"


def killed(monkeypatch, tmp_path: Path, **pretended) -> tuple[list[kills.Kill], str, str]:
    """A run that is killed once and ends as it is told to."""
    calls, told = iter(range(9)), {"files": FILES, **pretended}
    monkeypatch.setattr(kills, "start", lambda words, log, fresh: Pretended(words[-1], calls=calls, **told))
    for name, content in FILES.items():
        (tmp_path / "calm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "calm" / name).write_bytes(content)
    calm = Undisturbed(["train"], files_of(tmp_path / "calm"), set(), {True: 1.0, False: 1.0})
    return kills.killed_run("train", calm, tmp_path / "killed", 1, random.Random(0))


def test_equal_files_are_equal(monkeypatch, tmp_path):
    [kill], outcome, detail = killed(monkeypatch, tmp_path)
    assert (outcome, detail) == ("bit-equal", "") and 0 <= kill.instant <= 1


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_differs_in_a_bit_or_is_missing_is_named(monkeypatch, tmp_path, name):
    for files in ({**FILES, name: b"veights"}, {other: FILES[other] for other in FILES if other != name}):
        assert killed(monkeypatch, tmp_path, files=files)[1:] == ("different", name)
        (tmp_path / "killed" / name).unlink(missing_ok=True)


def test_a_file_that_is_left_over_is_named(monkeypatch, tmp_path):
    assert killed(monkeypatch, tmp_path, files={**FILES, "part.tmp": b""})[1:] == ("different", "part.tmp")


def test_a_command_that_cannot_go_on_has_failed(monkeypatch, tmp_path):
    assert killed(monkeypatch, tmp_path, code=1)[1:] == ("failed", "exit code 1: what the log says")


def test_two_runs_without_a_kill_must_agree(monkeypatch, tmp_path):
    contents = iter([b"one", b"other"])

    def start(words, log, fresh):
        return Pretended(words[-1], {"model/model.safetensors": next(contents)}, iter([1]))

    monkeypatch.setattr(kills, "start", start)
    with pytest.raises(Problem, match=r"two runs without a kill differ in model/model.safetensors"):
        undisturbed(["train"], tmp_path)


def test_how_far_a_run_had_come(tmp_path):
    assert reached(tmp_path) == (0, 0, "none")
    (tmp_path / "checkpoints" / "step-00000004").mkdir(parents=True)
    (tmp_path / "metrics.jsonl").write_text('{"step": 4, "loss": 1}\n{"step": 6, "lo')
    assert reached(tmp_path) == (6, 4, "metrics.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_command_that_was_killed_ends_with_the_same_bits(data, tmp_path, name, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = list(kills_of(name, data, tmp_path / "runs", 4, random.Random(name)))
    assert len(found) == 4
    assert [json.dumps(vars(kill)) for kill in found if kill.outcome != "bit-equal"] == []


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kills") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        prepare(folder)
    return folder
