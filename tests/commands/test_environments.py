"""An environment with almost nothing in it: regard trains and translates there, and says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from toy import DEV, ENVIRONMENT, TRAIN, make_corpus, training

NOWHERE = "/proc/no-such-folder"  # can be neither read nor created, not even by root
BARE = {name: ENVIRONMENT[name] for name in ("PATH", "PYTHONPATH") if name in ENVIRONMENT} | {
    "OMP_NUM_THREADS": "1",
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "XDG_CACHE_HOME": NOWHERE,
    "HF_HOME": NOWHERE,
    "MPLCONFIGDIR": NOWHERE,
}  # no HOME


def run_bare(folder: Path, *words: object, stdin: bytes = b"") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "regard", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=BARE, input=stdin, capture_output=True, timeout=280)


def test_no_home_no_cache_no_utf8_locale_and_odd_paths(tmp_path):
    """Windows line ends on one side only, in a folder whose name has spaces and is not ASCII."""
    folder = tmp_path / "a folder of übung"
    folder.mkdir()
    make_corpus(folder)
    for name in (TRAIN[0], DEV[0]):
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    done = run_bare(folder, *training(Path("."), "mein läufer"))
    assert done.returncode == 0, done.stderr
    done = run_bare(folder, "translate", "--model", "mein läufer", stdin="a män sees a dog .\r\n\r\n".encode())
    assert done.returncode == 0 and done.stderr == b""
    first, second, end = done.stdout.decode().split("\n")
    assert first and "\r" not in first and (second, end) == ("", "")


def test_without_an_extra_the_command_that_installs_it_is_named():
    code = "import sys; sys.modules['uvicorn'] = None; from regard.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=280)
    assert done.returncode != 0 and "pip install 'regard[serve]'" in done.stderr and "Traceback" not in done.stderr
