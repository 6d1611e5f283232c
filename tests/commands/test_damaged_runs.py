"""Each file of a run folder is cut, emptied or flipped in turn: the run ends with the same weights, or in a sentence
that names the file.  Never in a traceback, never silently with other weights."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_runs import RUNS, make_data, stop

import regard
from regard.checkpoints.weights import weights_of
from regard.errors import Problem

torch.set_num_threads(1)
SLOW = ["translate", "classify", "image", "contrast"]
KINDS = ["streams", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)]
IGNORED = {"lock", "README.md"}  # nothing of these decides anything


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def damages(content: bytes, flips: int) -> list[bytes]:
    """Cut, empty, and a bit flipped in so many places."""
    places = {round((number + 0.5) * len(content) / flips) for number in range(flips)} if content else set()
    return [content[: len(content) // 2], b"", *(flipped(content, at) for at in sorted(places))]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", params=KINDS)
def runs(request, data, tmp_path_factory):
    """A run that was stopped, and the same one finished; and the weights that it comes to."""
    folder, run = tmp_path_factory.mktemp(request.param), RUNS[request.param]
    stop(run, data, folder / "stopped")
    shutil.copytree(folder / "stopped", folder / "finished")
    run(data, folder / "finished")
    return run, folder, load_file(folder / "finished/model/model.safetensors")


@pytest.mark.parametrize("flips", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("state", ["stopped", "finished"])
def test_a_damaged_file_is_named_or_makes_no_difference(runs, data, tmp_path, capsys, state, flips):
    run, folder, whole = runs
    for name in sorted(path.relative_to(folder / state) for path in (folder / state).rglob("*") if path.is_file()):
        if name.name not in IGNORED:
            content = (folder / state / name).read_bytes()
            for number, damaged in enumerate(damages(content, flips)):
                if damaged != content:
                    check(run, data, folder / state, tmp_path / f"{name.name}-{number}", name, damaged, whole, capsys)


def check(run, data, good: Path, out: Path, name: Path, damaged: bytes, whole, capsys) -> None:
    shutil.copytree(good, out, copy_function=os.link)  # what is damaged is a file of its own
    (out / name).unlink()
    (out / name).write_bytes(damaged)
    capsys.readouterr()
    with suppress(Problem):  # a model that is used must be as it was written, too
        used = weights_of(regard.load(out, "cpu").model)
        same = regard.load(good, "cpu").model.state_dict()
        assert named(name, capsys.readouterr().err) or all(torch.equal(used[key], same[key]) for key in used), name
    try:
        run(data, out)
    except Problem as problem:
        assert named(name, str(problem)), (name, problem)
    else:
        found = load_file(out / "model/model.safetensors")
        assert found.keys() == whole.keys() and all(torch.equal(found[key], whole[key]) for key in whole), name
    shutil.rmtree(out)


def named(name: Path, sentence: str) -> bool:
    """By its path or, if its own bytes say what lies where, by its folder."""
    return str(name) in sentence or (name.name == "manifest.json" and str(name.parent) in sentence)
