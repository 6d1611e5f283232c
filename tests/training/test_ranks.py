"""Two processes under torchrun train as one does, and fall together."""

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tiny_run import CONFIG, PROCESSES, as_rank, assert_equal, assert_near, carrying, records, run, saved

from regard.training.parallel import Ranks, is_first

SCRIPT = Path(__file__).with_name("tiny_run.py")


def torchrun(*arguments, options=("--standalone",)):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *options]
    return subprocess.run([*command, str(SCRIPT), json.dumps(arguments)], capture_output=True, text=True, timeout=280)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def two_ranks(folder, fault, **changes):
    """As torchrun starts them, sooner; their exit codes."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    arguments = [(str(folder), fault, meeting | {"RANK": str(rank)}, changes) for rank in (0, 1)]
    processes = [PROCESSES.Process(target=as_rank, args=each) for each in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_two_ranks_are_one_and_one_may_take_over(tmp_path):
    """Dropout and masking included: what is drawn depends on the micro-batch, not on the rank that has it."""
    half = torchrun(str(tmp_path / "two"), "", {}, {"accumulate": 2, "steps": 6})
    assert half.returncode == 0, half.stderr
    ranks = [load_file(tmp_path / f"two/rank-{rank}.safetensors") for rank in (0, 1)]
    assert_equal(ranks[0], ranks[1])
    whole = replace(CONFIG, accumulate=4)
    one = run(tmp_path / "one", replace(whole, steps=6), fingerprint="data")
    assert_near(ranks[0], one.weights, 1e-6)
    for a, b in zip(records(tmp_path / "two"), records(tmp_path / "one"), strict=True):
        assert a["step"] == b["step"]
        assert a.get("loss", 0) == pytest.approx(b.get("loss", 0), rel=1e-6)
        assert a.get("tokens") == b.get("tokens")
    run(tmp_path / "two", whole, fingerprint="data")
    run(tmp_path / "one", whole, fingerprint="data")
    assert_near(saved(tmp_path / "two", 12), saved(tmp_path / "one", 12), 1e-6)


def test_two_ranks_unfreeze_as_one(tmp_path):
    """What is frozen takes part in the exchange of gradients, and learns nothing from it."""
    changes = {"steps": 8, "optimizer": replace(CONFIG.optimizer, discriminative=2.6, unfreeze=3, schedule="slanted")}
    assert two_ranks(tmp_path / "two", "", accumulate=2, keep=9, **changes) == [0, 0]
    ranks = [load_file(tmp_path / f"two/rank-{rank}.safetensors") for rank in (0, 1)]
    assert_equal(ranks[0], ranks[1])
    run(tmp_path / "one", replace(CONFIG, accumulate=4, keep=9, **changes))
    for step in (2, 4, 8):
        assert_near(saved(tmp_path / "two", step), saved(tmp_path / "one", step), 1e-6)
        assert_near(*(saved(tmp_path / name, step, "optimizer") for name in ("two", "one")), 1e-6)


@pytest.mark.parametrize(
    ("fault", "codes", "message"),
    [("raises", [1, 1], "Problem: Rank 1 stopped: line 13 of train.de is empty"),
     ("is killed", [1, -9], "RuntimeError: "),
     ("disagrees", [1, 1], "Problem: The ranks were given different data")],
)  # fmt: skip
def test_when_one_rank_fails_the_other_stops_with_its_message(tmp_path, fault, codes, message):
    assert two_ranks(tmp_path, fault) == codes
    assert (tmp_path / "rank-0.txt").read_text().startswith(message)
    assert not (tmp_path / "finished.json").exists()


def test_what_two_ranks_carried_is_taken_up_by_one(tmp_path):
    """Each rank's part lies in the checkpoint, under its manifest; one process takes up all turns, two again theirs."""
    whole = run(tmp_path / "whole", replace(CONFIG, accumulate=2), **carrying()).weights
    assert two_ranks(tmp_path / "two", "carries", steps=4) == [0, 0]
    folder = tmp_path / "two/checkpoints/step-00000004"
    names = {"carried-0.safetensors", "carried-1.safetensors"}
    assert names < json.loads((folder / "manifest.json").read_text())["files"].keys()
    assert {path.name for path in folder.parent.iterdir()} == {"step-00000002", "step-00000004"}
    run(tmp_path / "two", replace(CONFIG, accumulate=2, steps=8), **carrying())
    assert two_ranks(tmp_path / "two", "carries") == [0, 0]
    assert_near(load_file(tmp_path / "two/rank-1.safetensors"), whole, 1e-6)


@pytest.mark.slow
def test_torchrun_starts_killed_ranks_again_and_they_end_the_same(tmp_path):
    """One rank is killed once: both are started anew, go on from the checkpoint, and end as two that nobody killed.
    Without --standalone torchrun keeps its store from one start to the next."""
    options = ["--master-port", free_port(), "--max-restarts", "1"]
    killed = torchrun(str(tmp_path / "killed"), "is killed once", {}, {}, options=options)
    assert killed.returncode == 0 and "exitcode: -9" in killed.stderr, killed.stderr
    assert torchrun(str(tmp_path / "whole"), "", {}, {}).returncode == 0
    for rank in (0, 1):
        ends = [load_file(tmp_path / f"{name}/rank-{rank}.safetensors") for name in ("killed", "whole")]
        assert_equal(*ends)
    assert [record["step"] for record in records(tmp_path / "killed")] == [
        record["step"] for record in records(tmp_path / "whole")
    ]


def test_a_signal_to_one_rank_stops_both_after_the_same_step(tmp_path):
    assert two_ranks(tmp_path, "is signalled", steps=1000) == [143, 143]
    assert_equal(load_file(tmp_path / "rank-0.safetensors"), load_file(tmp_path / "rank-1.safetensors"))
    assert not (tmp_path / "finished.json").exists()


def test_one_process_is_a_single_rank(monkeypatch):
    assert Ranks().first and is_first()
    monkeypatch.setenv("RANK", "1")
    assert not is_first()
