"""What every command owes: help at once, a clear no to what it does not know, and checks that no option removes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import regard
from regard.cli import app, main

SLOW = ("torch", "numpy", "tokenizers", "matplotlib", "sklearn", "sacrebleu")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def leaves(command, path=()):
    """Every command that can be called, by the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        return {path: command}
    return {words: leaf for name, one in inner.items() for words, leaf in leaves(one, (*path, name)).items()}


ALL = leaves(typer.main.get_command(app))
PASSED_ON = {words for words in ALL if words[0] == "bench"} - {("bench", "finetune")}  # tests/benchmarks calls these
COMMANDS = {words: leaf for words, leaf in ALL.items() if words not in PASSED_ON}
EVERY = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def call(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def python(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=280)


def test_the_commands_are_functions_too():
    verbs = {words[0] for words in COMMANDS} - {"demo"}
    assert {"train", "translate", "evaluate", "tokenizer", "show"} <= verbs <= set(regard.__all__)


@EVERY
def test_help_says_what_every_option_is_for(monkeypatch, capsys, words):
    assert call(monkeypatch, *words, "--help") == 0
    told = capsys.readouterr().out
    for parameter in COMMANDS[words].params:
        assert parameter.help, f"{' '.join(words)}: {parameter.name} has no help"
        assert any(name in told for name in parameter.opts), parameter.name


@EVERY
def test_an_unknown_option_is_refused(monkeypatch, capfd, words):
    assert call(monkeypatch, *words, "--modell", "x") == 2
    error = capfd.readouterr().err
    assert "--modell" in error and "Traceback" not in error
    if any("--model" in parameter.opts for parameter in COMMANDS[words].params):
        assert "--model" in error.replace("--modell", "")


@pytest.mark.parametrize(
    "words, told",
    [(["translat"], "Did you mean 'translate'"), (["train", "tranlate"], "Did you mean 'translate'"),
     (["evaluate", "file"], "Missing option '--model'"), (["train", "translate"], "Missing option '--train'"),
     ([], "COMMAND [ARGS]")],
)  # fmt: skip
def test_a_misspelt_verb_or_a_missing_option_is_refused(monkeypatch, capsys, words, told):
    assert call(monkeypatch, *words) == 2
    printed = capsys.readouterr()
    assert told in printed.err + printed.out and "Traceback" not in printed.err


def test_help_and_version_load_nothing_heavy():
    words = [["--version"], ["--help"], *([*words, "--help"] for words in COMMANDS)]
    code = f"""
import sys
from regard.cli import main
for words in {words}:
    sys.argv = ["regard", *words]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0
    assert not set({SLOW}) & set(sys.modules), words
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"regard {regard.__version__}\n")


def test_no_check_is_lost_when_python_optimizes(tmp_path):
    (tmp_path / "blank").write_text("\n \n")
    words = ["tokenizer", "words", str(tmp_path / "blank"), "--out", str(tmp_path / "tokenizer.json")]
    done = python("-O", "-m", "regard", *words)  # a command that does not load torch, whose code would be made anew
    assert done.returncode == 1 and "all lines are blank" in done.stderr and "Traceback" not in done.stderr
    for path in Path(regard.__file__).parent.rglob("*.py"):
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text()))), path


def test_every_public_name_is_there():
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    assert set(regard.__all__) == set(dir(regard))
    with pytest.raises(AttributeError, match="regard has no 'translat'"):
        regard.translat  # noqa: B018
