"""A run that is killed at any of the instants at which it touches its folder, from the first on, ends the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toy import ENVIRONMENT

KILLED = '''
"""Runs in children of one process: killed as they touch their folder for the n-th time, then to the end."""
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from small_runs import RUNS
from toy import make_corpus
from toy_examples import write_stories
import regard.commands.translation_run, regard.commands.pretraining_run  # once, before the children are made

folder, kind, most = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
data = folder / "data"
data.mkdir()
make_corpus(data)
write_stories(data / "stories.txt")
TOUCHED = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")


def child(out, kill_at=None):
    """The exit status of a process that runs, and is killed just before it touches its folder for the n-th time."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    touched = [0]

    def watch(event, arguments):
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+")
        if (writes or event in TOUCHED) and str(out) in str(arguments[0]):
            touched[0] += 1
            if touched[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_at:
        sys.addaudithook(watch)
    try:
        RUNS[kind](data, out)
        os._exit(0)
    except BaseException as error:
        (folder / "error.txt").write_text(f"{out}: {error!r}")
        os._exit(1)


def weights(out):
    return (out / "model/model.safetensors").read_bytes()


assert child(folder / "whole") == 0
told = []
for kill_at in range(1, most + 1):
    out = folder / f"killed-{kill_at}"
    if child(out, kill_at) != signal.SIGKILL:
        break  # it had come to its end before
    left = sorted(path.name for path in out.rglob("*")) if out.exists() else []
    again = child(out)
    told.append({"left": left, "again": again, "same": again == 0 and weights(out) == weights(folder / "whole")})
print(json.dumps(told))
'''


@pytest.mark.parametrize(
    "kind, most",
    [("streams", 5), *(pytest.param(kind, 10**6, marks=pytest.mark.slow) for kind in ("streams", "translate"))],
)
def test_killed_at_each_instant_it_ends_the_same(tmp_path, kind, most):
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", KILLED, here, str(tmp_path), kind, str(most)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    failed = [(number, one["left"]) for number, one in enumerate(told, 1) if not one["same"]]
    assert not failed, (failed, (tmp_path / "error.txt").read_text() if (tmp_path / "error.txt").exists() else "")
    assert any(one["left"] and all(name.startswith(".run.json") for name in one["left"]) for one in told)
    assert len(told) == most or len(told) > 30
