"""`regard bench scaling`: every family in any size, curves and the lectures' table; and `regard bench all`."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import players
import pytest
import torch

from benchmarks import all as everything
from benchmarks import costs, scaling, writing
from benchmarks.costs import cost, layers_of
from benchmarks.families import FAMILIES, Sizes
from benchmarks.plan import Plan
from recipes.results import append, write
from regard.cli import main
from regard.commands.bench import BENCHMARKS
from regard.errors import Problem


class Clock:
    on_gpu = False

    def __init__(self):
        self.time = 0.0

    def now(self) -> float:
        self.time += 1.0
        return self.time


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_a_step_in_any_size(family):
    for sizes in (Sizes(8, 1, 1, 50), Sizes(12, 3, 2, 80)):
        seconds, _ = cost(Plan(family, "", "cpu", 1, 1, 1, 0), Clock(), sizes)
        assert seconds == 1.0


def test_the_lectures_count_of_one_layer_each():
    assert list(layers_of(1000).values()) == [4e9, 16e9, 6e9]


def test_one_layer_each_is_measured():
    [found] = players.played(costs.one_layer_each, Plan("", "", "cpu", 1, 2, 1, 0, longest=40))
    assert [len(row) for row in found] == [3, 3] and all(seconds > 0 for row in found for seconds in row)


def test_curves_are_drawn(tmp_path, monkeypatch, capsys):
    words = ["--small", "--families", "gpt2", "--axes", "length", "--seconds", 0.01, "--batch", 2, "--threads", 1]
    out = ["--out", tmp_path / "out.json", "--results", tmp_path / "results"]
    monkeypatch.setattr("sys.argv", ["bench", *map(str, [*words, *out])])
    writing.run(scaling.bench, scaling.asked())
    assert "gpt2, length: 16: " in capsys.readouterr().out
    told = json.loads((tmp_path / "out.json").read_text())
    assert [size for size, *_ in told["curves"]["gpt2"]["length"]] == [16, 32]
    assert told["layers"]["self-attention"]["GFLOP"] == 0.004 and "length 100" in told["what"]
    [page] = write(tmp_path / "results")
    assert "ms a step by length" in page.read_text() and len(list(page.parent.glob("*.svg"))) == 2


def test_a_median_is_told_with_its_spread(tmp_path):
    about = {"data": "work", "command": "do it", "folder": tmp_path}
    append("speed", row="ours", metric="tokens/s", value=2.0, least=1.0, most=3.0, **about)
    append("speed", row="ours", metric="seconds", value=5.0, least=5.0, most=5.0, **about)
    [page] = write(tmp_path)
    assert "| ours | 2.000 (1.000–3.000) | 5.000 |" in page.read_text()


def test_a_size_that_does_not_fit_ends_its_axis(monkeypatch, capsys):
    def cost(plan, turns, sizes):
        if sizes.length > 100:
            raise torch.OutOfMemoryError("too much")
        return 0.5, 1000

    monkeypatch.setattr(costs, "cost", cost)
    plan = Plan("bert", json.dumps({"length": [50, 200, 400], "depth": [1]}), "cpu", 1, 1, 1, 0)
    assert players.played(costs.grow, plan) == [[[50.0, 0.5, 1000]], []]  # other axes have rows of 128
    assert "bert ends before length 200: too much" in capsys.readouterr().err


def asked(**changes) -> Namespace:
    words = {"only": None, "device": "cpu", "threads": 1, "limit": 60, "within": 600, "out": Path("out")}
    return Namespace(**words | {"results": None} | changes)


def test_all_calls_every_benchmark_with_options_that_it_has(monkeypatch):
    for device, parts in (("cuda", everything.ON_A_GPU), ("cpu", everything.ON_A_CPU)):
        for name, words in everything.chosen(parts, asked(device=device)).items():
            _, flag, module, *options = everything.command(name, words, asked(device=device, results=Path("results")))
            assert flag == "-m" and module.removeprefix("benchmarks.") in BENCHMARKS
            found = sys.modules.get(module) or __import__(module, fromlist=["bench"])
            monkeypatch.setattr("sys.argv", [module, *options])
            read = (getattr(found, "asked", None) or found.options)()
            assert (read.device, read.out.name, read.results) == (device, f"{name}.json", Path("results"))


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_tells_its_options_and_refuses_others(name, monkeypatch, capsys):
    for words, code in ((["--help"], 0), (["--modell", "x"], 2)):
        monkeypatch.setattr("sys.argv", [name, *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")  # as python -m does
        assert ended.value.code == code
    told = capsys.readouterr()
    assert "--threads" in told.out and "--modell" in told.err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_command_passes_its_options_on(name, monkeypatch):
    called = []
    monkeypatch.setattr(subprocess, "run", lambda command, env: called.append(command) or Namespace(returncode=3))
    monkeypatch.setattr("sys.argv", ["regard", "bench", name, "--modell", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3 and called == [[sys.executable, "-m", f"benchmarks.{name}", "--modell", "--help"]]


def test_all_go_on_when_one_fails(monkeypatch, capsys):
    monkeypatch.setattr(everything, "ON_A_CPU", {"good": "good", "bad": "bad", "slow": "slow"})
    codes = {"good": "pass", "bad": "raise SystemExit(3)", "slow": "import time; time.sleep(60)"}
    monkeypatch.setattr(everything, "command", lambda name, words, asked: [sys.executable, "-c", codes[name]])
    with pytest.raises(Problem, match=r"not done: bad, slow\. Try them again by --only bad slow"):
        everything.bench(asked(limit=2))
    told = ["good: done", "bad: ended with exit code 3", "slow: not done in 2 s"]
    assert capsys.readouterr().out.split("\n")[:3] == told
    with pytest.raises(Problem, match="on cpu there is no train-bert"):
        everything.chosen(everything.ON_A_CPU, asked(only=["train-bert"]))


def test_a_flag_is_told_as_one():
    where = {"device": "cpu", "threads": 1, "out": Path("out"), "results": Path("results")}
    told = writing.facts("scaling", (), Namespace(small=True, axes=["length", "depth"], **where))
    assert told["command"] == "regard bench scaling --small --axes length depth --device cpu --threads 1"
