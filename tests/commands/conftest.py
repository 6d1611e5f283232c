"""The toy corpus, a model that has learned it, and `call`: a command run in this process, for torch loads slowly."""

from __future__ import annotations

import io
import signal
import sys
from types import SimpleNamespace

import pytest
from toy import make_corpus, training

from regard.cli import main


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def call(monkeypatch, capsys):
    """`call("translate", "--model", folder, stdin=b"...")`: what was printed, and the exit code."""
    pipe = signal.getsignal(signal.SIGPIPE)

    def run(*arguments: object, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=printed.out, err=printed.err)

    yield run
    signal.signal(signal.SIGPIPE, pipe)


@pytest.fixture(scope="session")
def run_folder(corpus, tmp_path_factory):
    """A finished run, whose model has learned the toy language."""
    folder = tmp_path_factory.mktemp("run") / "learned"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        more = ["--steps", 240, "--warmup", 20, "--evaluate-every", 120, "--save-every", 120, "--report-every", 40]
        patch.setattr(sys, "argv", ["regard", *training(corpus, folder, *more)])
        main()
    assert ended.value.code == 0
    return folder


@pytest.fixture
def model(run_folder):
    return run_folder / "model"
