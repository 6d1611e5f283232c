"""Names on the hub: the cache is enough, and without a network the fault is told in a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from regard.checkpoints.hub import fetched
from regard.errors import Problem

OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def in_cache(home: Path, name: str, files: Path) -> Path:
    """A model as the hub's own library keeps it."""
    place = home / "hub" / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("a" * 40)
    snapshot = place / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for file in files.iterdir():
        if file.name != "manifest.json":
            (snapshot / file.name).write_bytes(file.read_bytes())
    return snapshot


def run(home: Path, *words: str) -> subprocess.CompletedProcess:
    environment = os.environ | OFFLINE | {"HF_HOME": str(home)}
    return subprocess.run([sys.executable, "-m", "regard", *words], env=environment, capture_output=True, text=True)


def test_a_name_in_the_cache_needs_no_network(small_bert, tmp_path):
    in_cache(tmp_path, "someone/small-bert", small_bert)
    done = run(tmp_path, "fill", "--model", "someone/small-bert", "the [MASK] sat", "--best", "2")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where the hub's library keeps models, for commands of this process: it has read its environment already."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def test_a_name_that_cannot_be_had_is_told_in_a_line(call, cache):
    done = call("fill", "--model", "someone/no-such-model", "the [MASK] sat")
    assert done.code == 1
    assert "someone/no-such-model: there is no such folder" in done.err and "Traceback" not in done.err


def test_pickled_weights_are_fetched_to_be_converted_and_for_nothing_else(call, cache, small_bert, tmp_path):
    import torch

    from regard.checkpoints.files import load_tensors

    snapshot = in_cache(cache, "someone/pickled-bert", small_bert)
    tensors = load_tensors(snapshot / "model.safetensors")
    (snapshot / "model.safetensors").unlink()
    refused = call("convert", "someone/pickled-bert", tmp_path / "out")
    assert refused.code == 1 and "the cache has a part of the model alone" in refused.err
    torch.save(tensors, snapshot / "pytorch_model.bin")
    refused = call("fill", "--model", "someone/pickled-bert", "the [MASK] sat")
    assert refused.code == 1 and "regard convert" in refused.err
    assert call("convert", "someone/pickled-bert", tmp_path / "out").code == 0
    assert call("fill", "--model", tmp_path / "out", "the [MASK] sat").code == 0


def test_a_slip_in_a_path_is_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(Problem, match="no such folder, and it cannot be"):
        fetched("runs/en-de")


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "a/b/c", "", ".hidden", "a b", "https://somewhere/model"])
def test_what_can_be_no_name_is_never_asked_for(name):
    with pytest.raises(Problem, match="no such folder, and it cannot be the name of a model on the hub"):
        fetched(name)
