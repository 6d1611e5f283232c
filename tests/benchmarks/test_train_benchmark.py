"""`regard bench train`: the same weights, rows and questions for all; steps are counted, rows come one by one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import players
import pytest
import torch

from benchmarks import ceiling, train, writing
from benchmarks.alone import one_by_one
from benchmarks.contest import Turns, compare
from benchmarks.laps import NOT_TIMED, WARM_UP, Lap, Laps
from benchmarks.learners import pretrain, translate
from benchmarks.loads import LOADS, drawn_lengths, flops_of_reader, lay_out, new_reader
from benchmarks.plan import Plan
from benchmarks.recurrences import attending, bare

PLAN = Plan("", "", "cpu", 1, batch=4, steps=2, stretches=3, launch="plain")


def laid_out(name: str, folder) -> tuple[Plan, float]:
    load = LOADS[name].shrunk()
    flops = lay_out(load, folder / "model", folder / "examples")
    where = {"model": str(folder / "model"), "examples": str(folder / "examples")}
    sizes = {"objective": load.objective, "longest": load.longest, "budget": load.budget}
    return replace(PLAN, **where, **sizes), flops


@pytest.mark.parametrize("name", ["bert", "bert-mixed", "gpt2"])
def test_the_trainer_is_asked_the_same(name, tmp_path):
    for package in ("transformers", "accelerate"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from benchmarks import trainers

    plan, flops = laid_out(name, tmp_path)
    (shown, *ours), (theirs, *laps) = players.played(pretrain, plan), players.played(trainers.pretrain, plan)
    assert compare("regard", shown, "trainer", theirs) < 1e-5 and 9 < shown[0][0] < 12 and flops > 1e6
    assert [lap.steps for lap in ours] == [lap.steps for lap in laps] == [1, 2, 2]
    if name != "bert-mixed":
        assert [lap.tokens for lap in ours] == [lap.tokens for lap in laps] == [256, 512, 512]
    rows = trainers.rows_of(plan)
    assert max(len(row["input_ids"]) for row in rows) <= 64 and len(rows) >= 4 * 63


def test_the_loop_around_torchs_lstm_computes_the_same(tmp_path):
    plan, _ = laid_out("lstm", tmp_path)
    (shown, *ours), (theirs, *laps) = players.played(translate, plan), players.played(attending, plan)
    assert compare("regard", shown, "torch", theirs) < 1e-5
    assert [lap.tokens for lap in ours] == [lap.tokens for lap in laps] and min(lap.peak for lap in ours) > 1e6
    nothing, *laps = players.played(bare, plan)
    assert nothing == [] and len(laps) == 3


def test_rows_are_as_long_as_they_are_said_to_be():
    lengths = drawn_lengths(LOADS["bert-mixed"])
    assert abs(lengths.mean() - 128) < 6 and lengths.max() == 512 and len(lengths) == 64 * 256
    assert set(drawn_lengths(LOADS["bert"])) == {512}


def test_flops_are_those_of_the_papers_shapes():
    """BERT-base has 85 M weights in its layers and looks at 512 tokens; 15% of them are asked for."""
    with torch.device("meta"):
        found = flops_of_reader(new_reader(LOADS["bert"]).model, LOADS["bert"], np.full(4, 512))
    layers, head, attention = 12 * 12 * 768**2, 768 * (30522 + 768), 2 * 12 * 768 * 512
    assert found == pytest.approx(6 * (layers + 0.15 * head + attention), rel=0.001)


def test_a_stretch_is_so_many_seconds_and_a_few_steps_at_least():
    heard = players.Heard()
    laps = Laps(Turns(heard, False), replace(PLAN, steps=0, seconds=0.0))
    laps.begin()
    while not laps.step(10):
        pass
    assert [(lap.steps, lap.tokens) for lap in heard.said] == [(1, 10), (WARM_UP, 30), (WARM_UP, 30)]


def test_who_fails_is_told_of_and_the_others_go_on():
    names = ("counting", "different", "failing", "silent")
    plan, said = replace(PLAN, stretches=2), []
    entries = [(name, getattr(players, name), plan) for name in (*names, "counting")]
    entries[-1] = ("again", *entries[-1][1:])
    found = one_by_one(entries, 4, said.append)
    assert list(found) == ["counting", "again"] and [one.tokens for one in found["again"]] == [1, 2]
    told = [line for line in said if line.startswith("left out")]
    assert "differ by 1" in told[0] and "exit code 3" in told[1] and "silent was silent for 4 s" in told[2]


def test_a_row_is_told_beside_its_base_and_the_ceiling():
    laps = [Lap(9.0, 10, 1, 0), Lap(5.0, 10, 1, 0), Lap(2.0, 100, 4, 10**9), Lap(1.0, 100, 4, 2 * 10**9)]
    slow = [Lap(one.seconds * 4, one.tokens, one.steps, one.peak) for one in laps]
    rows = train.rows_of({"regard": laps, "trainer": slow}, "trainer", 0.001)
    assert rows["regard"]["real tokens/s"] == [75, 50, 100] and rows["regard"]["ms a step"] == [375, 250, 500]
    assert rows["regard"]["% of ceiling"] == pytest.approx([7.5, 5, 10]) and rows["regard"]["first step s"][0] == 9
    assert rows["regard"]["peak GB"][0] == 2 and rows["regard"]["times trainer"][0] == 4
    assert "times trainer" not in train.rows_of({"regard": laps}, "trainer", 1.0)["regard"]


def test_the_command_prints_a_table_and_writes_json_and_results(tmp_path, monkeypatch, capsys):
    words = ["--small", "--loads", "lstm", "--rows", "torch-bare", "trainer", "--steps", 1, "--repetitions", 1]
    out = ["--threads", 1, "--out", tmp_path / "out.json", "--results", tmp_path / "results"]
    monkeypatch.setattr("sys.argv", ["bench", *map(str, [*words, *out])])
    monkeypatch.setattr(train, "installed", lambda name: True)  # here or not, the Trainer has no LSTM
    writing.run(train.bench, train.asked())
    printed = capsys.readouterr()
    what, heading, line = printed.out.splitlines()[:3]
    assert "LSTMs with attention" in what and "% of ceiling" in heading and line.startswith("torch-bare")
    assert "left out: trainer: it does not learn this" in printed.err
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["ceiling"] > 1e9 and "--small --repetitions" in told["command"] and "results" not in told["command"]
    lines = [json.loads(line) for line in (tmp_path / "results/speed.jsonl").read_text().splitlines()]
    assert {line["metric"] for line in lines} == set(told["loads"]["lstm"]["rows"]["torch-bare"])
    assert all(line["least"] <= line["value"] <= line["most"] for line in lines)


def test_what_cannot_be_run_is_told(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench", "--seconds", "0"])
    with pytest.raises(SystemExit, match="2"):
        writing.run(train.bench, train.asked())
    assert "--seconds 0: give more than 0" in capsys.readouterr().err


def test_a_ceiling_is_measured_in_this_process_too(monkeypatch):
    monkeypatch.setattr(ceiling, "SIZES", {False: 64})
    [[[found]]] = players.played(ceiling.measure, PLAN)
    assert found > 1e6 and NOT_TIMED == 2
