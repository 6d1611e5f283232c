"""What Windows and macOS lack is not needed: regard runs where those modules and signals do not exist."""

import subprocess
import sys

import pytest
from toy import ENVIRONMENT, training

from regard.checkpoints import files
from regard.device import widest_float
from regard.errors import UsageProblem

PRELUDE = """
import signal, sys
import portalocker  # of sacrebleu: it takes the system's own module by the system's name
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # importing it fails, as it does on Windows
for name in ("SIGPIPE", "SIGKILL", "SIGHUP"):
    delattr(signal, name)
from regard.cli import main
main()
"""


def run_without_unix(*words: object, stdin: str = "") -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PRELUDE, *map(str, words)]
    return subprocess.run(command, env=ENVIRONMENT, input=stdin, capture_output=True, text=True, timeout=300)


def test_a_model_is_trained_and_used_without_modules_of_unix(corpus, tmp_path):
    trained = run_without_unix(*training(corpus, tmp_path / "run"))
    assert trained.returncode == 0, trained.stderr
    used = run_without_unix("translate", "--model", tmp_path / "run", stdin="a man\n")
    assert used.returncode == 0 and used.stdout.count("\n") == 1, used.stderr


def test_folders_are_not_opened_on_windows(tmp_path, monkeypatch):
    monkeypatch.setattr(files.sys, "platform", "win32")
    monkeypatch.setattr(files.os, "open", None)  # a folder cannot be opened there
    files.write_folder(tmp_path / "folder", {"a.txt": b"a"})
    assert (tmp_path / "folder/a.txt").read_bytes() == b"a"


def test_a_broken_pipe_without_its_signal_ends_quietly(model, tmp_path):
    (tmp_path / "many.txt").write_text("a man sees a dog .\n" * 2000)
    command = [sys.executable, "-c", PRELUDE, "translate", "--model", str(model), "--file", str(tmp_path / "many.txt")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=300) == 1 and process.stderr.read() == b""


def test_mps_is_accepted_and_refused_in_a_sentence_where_there_is_none(model):
    import torch

    from regard import load

    assert widest_float(torch.device("mps")) == torch.float32  # Apple's GPUs have no double precision
    if not torch.backends.mps.is_available():
        with pytest.raises(UsageProblem, match="device 'mps' cannot be used here"):
            load(model, "mps")
