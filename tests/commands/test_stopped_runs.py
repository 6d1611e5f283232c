"""A run that was stopped can be used, by its best checkpoint so far, and goes on as if it had not been."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file
from small_runs import RUNS, SUFFIXES, make_data, stop

import regard
from regard.checkpoints.weights import set_weights, weights_of
from regard.data.reading import Reading
from regard.errors import Problem
from regard.tasks.classify import TARGET_SCALE

torch.set_num_threads(1)
SIMILAR = ("pair", "choose", "both", "text", "direct")  # to others, which are tried each time
USES = {
    "classify": ["classify", "a film is good"], "tag": ["tag", "the film"], "translate": ["translate"],
    "masked": ["fill", "a [MASK] is good"], "next": ["generate", "a film", "--most", 2], "image": ["show"],
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state_of(folder):
    newest = max((folder / "checkpoints").glob("step-*"))
    return newest, json.loads((newest / "state.json").read_text())


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in SIMILAR else kind for kind in RUNS]
)
def test_every_kind_of_run_can_be_used_before_it_has_finished(data, tmp_path, capsys, kind):
    run = tmp_path / "run"
    stop(RUNS[kind], data, run)
    _, state = state_of(run)
    best, before = state["progress"]["best_step"] or state["progress"]["step"], contents(run)
    capsys.readouterr()
    model = regard.load(run, "cpu")
    said = capsys.readouterr().err
    assert re.search(rf"run has not finished: this is its best checkpoint so far, step {best} of \d+ \(\S+ ", said), (
        said
    )
    saved = load_file(run / f"checkpoints/step-{best:08d}/model.safetensors")
    if kind != "regress":  # whose head is scaled to the targets, see below
        assert all(torch.equal(tensor, saved[f"model.{name}"]) for name, tensor in weights_of(model.model).items())
    if kind in ("classify", "pair", "choose", "tag", "answer", "reward"):
        assert score_on_dev(model, data, kind, state["config"]["best"]) == pytest.approx(state["progress"]["best"])
    assert contents(run) == before
    RUNS[kind](data, run)
    assert (run / "model").is_dir() and not (run / "initial").exists()
    assert "has not finished" not in capsys.readouterr().err


def score_on_dev(model, data, kind, best):
    """The number by which the best checkpoint was chosen, worked out by the model that was opened."""
    folder = data if kind == "reward" else data / kind
    examples = model.task.read(folder / f"dev.{SUFFIXES.get(kind, 'tsv')}", Reading())
    return next(one.value for one in model.evaluate(examples) if one.metric.lower() == best.partition(" ")[2])


@pytest.mark.parametrize("kind", USES)
def test_commands_say_which_checkpoint_they_use(call, data, tmp_path, kind):
    stop(RUNS[kind], data, tmp_path / "run")
    verb, *more = USES[kind]
    words = [verb, tmp_path / "run"] if verb == "show" else [verb, "--model", tmp_path / "run", *more]
    done = call(*words, stdin=b"a man\n")
    assert done.code == 0 and done.out and "has not finished: this is its best checkpoint so far" in done.err, done.err


def test_a_run_that_was_used_ends_as_one_that_was_not(data, tmp_path):
    stop(RUNS["streams"], data, tmp_path / "used")
    shutil.copytree(tmp_path / "used", tmp_path / "unused")
    regard.evaluate(tmp_path / "used", [data / "stories.txt"])
    one, other = (RUNS["streams"](data, tmp_path / name) for name in ("used", "unused"))
    ours, theirs = (weights_of(reader.model) for reader in (one, other))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_numbers_of_a_stopped_regression_are_on_the_scale_of_its_targets(data, tmp_path):
    run = tmp_path / "run"
    stop(RUNS["regress"], data, run)
    _, state = state_of(run)
    started, stopped = regard.load(run / "initial", "cpu"), regard.load(run, "cpu")
    saved = load_file(run / f"checkpoints/step-{state['progress']['best_step']:08d}/model.safetensors")
    set_weights(started.model, {name.removeprefix("model."): tensor for name, tensor in saved.items()}, run)
    assert started.task.spread == pytest.approx(0.7, abs=0.1) and started.task.mean == pytest.approx(1, abs=0.1)
    texts = ["a film is good", "the film is so great"]
    assert stopped.predict(texts) == pytest.approx(started.predict(texts), abs=1e-5)
    stopped.save(tmp_path / "saved")
    assert TARGET_SCALE not in json.loads((tmp_path / "saved/config.json").read_text())


def test_the_last_checkpoint_where_nothing_was_evaluated(data, tmp_path, capsys):
    def unevaluated(data, out):
        return regard.pretrain("lstm-tiny", [data / "stories.txt"], out=out, steps=6, budget=200, longest=32, vocab=60)

    stop(unevaluated, data, tmp_path / "run")
    regard.load(tmp_path / "run", "cpu")
    assert "has not finished: this is its last checkpoint, step 4 of 6" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named_and_another_one_used(data, tmp_path, capsys):
    stop(RUNS["next"], data, tmp_path, after=4)
    newest, _ = state_of(tmp_path)
    (newest / "optimizer.safetensors").write_bytes(b"")
    regard.load(tmp_path, "cpu")
    said = capsys.readouterr().err
    assert f"{newest / 'optimizer.safetensors'} is damaged" in said
    assert "has not finished: this is its best checkpoint so far, step 4 of 6" in said


def test_what_cannot_be_used_yet_is_said(data, tmp_path):
    stop(RUNS["classify"], data, tmp_path)
    shutil.rmtree(tmp_path / "initial")
    with pytest.raises(
        Problem, match=r"initial, which earlier versions of regard did not write\. Give its command again"
    ):
        regard.load(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(Problem, match="has no checkpoint that can be used"):
        regard.load(tmp_path)
    RUNS["classify"](data, tmp_path)
    assert regard.load(tmp_path).predict(["a film"])
