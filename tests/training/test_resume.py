"""A run that was stopped goes on as if it had not been."""

import json
import os
import resource
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_run import CONFIG, PROCESSES, CountingRows, assert_equal, assert_near, records, run, run_and_save, saved, tiny

from regard.checkpoints.files import read_checked_json
from regard.errors import Problem
from regard.training import saving, step
from regard.training.report import Reporter
from regard.training.resume import Progress, differences, locked

UNTIMED = {"step", "epoch", "loss", "accuracy", "rate", "norm", "tokens", "evaluation", "weights"}
LONG = {"steps": 60, "report_every": 7, "evaluate_every": 5, "save_every": 2, "average": 3, "keep": 1}


class Heard(Reporter):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def interrupt(folder, config=CONFIG, after=5, number=signal.SIGTERM, device="cpu", **options):
    """Train until a signal comes in the middle of a step."""
    asked = tiny().to(device)
    prepare, calls = asked.prepare, []

    def signalled(batch):
        calls.append(batch)
        if len(calls) == after:
            signal.raise_signal(number)
        return prepare(batch)

    asked.prepare = signalled
    return run(folder, config, asked=asked, **options)


def told(folder):
    return [{name: value for name, value in record.items() if name in UNTIMED} for record in records(folder)]


def spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


# Stopping and going on


def test_a_signal_saves_and_the_resumed_run_is_the_same(tmp_path):
    outcome = interrupt(tmp_path / "stopped")
    assert (outcome.step, outcome.stopped_because, outcome.exit_code) == (5, "signal", 143)
    assert checkpoints(tmp_path / "stopped")[-1] == "step-00000005"
    resumed, whole = run(tmp_path / "stopped"), run(tmp_path / "whole")
    assert_equal(resumed.weights, whole.weights)
    assert told(tmp_path / "stopped") == told(tmp_path / "whole")
    assert resumed.best == whole.best


def test_the_average_is_not_changed_by_an_interruption(tmp_path):
    config = replace(CONFIG, average=3, keep=1)
    interrupt(tmp_path / "stopped", config, after=9)
    resumed = run(tmp_path / "stopped", config, evaluate=None)
    whole = run(tmp_path / "whole", config, evaluate=None)
    assert resumed.chosen == whole.chosen == "average"
    assert_equal(resumed.weights, whole.weights)
    averaged = [saved(tmp_path / "whole", step) for step in (8, 10, 12)]
    for name, tensor in averaged[0].items():
        mean = sum(weights[name].double() for weights in averaged) / 3
        torch.testing.assert_close(whole.weights[name], mean.to(tensor.dtype), rtol=0, atol=1e-7)


@pytest.mark.parametrize("lost", ["restore_optimizer", "set_weights", "seed_of"])
def test_every_part_of_the_state_matters(tmp_path, monkeypatch, lost):
    """The equality above would not notice a loss it cannot see: take away each part in turn."""
    whole = run(tmp_path / "whole").weights
    interrupt(tmp_path / "stopped")
    if lost == "seed_of":  # draws that depend on when the process began, as an unsaved random state would
        monkeypatch.setattr(step, lost, lambda seed, position: hash((os.urandom(8), position)) % 2**32)
    else:
        monkeypatch.setattr(saving, lost, lambda *_: None)
    resumed = run(tmp_path / "stopped").weights
    assert not torch.equal(resumed["model.embed.weight"], whole["model.embed.weight"])


def test_every_part_of_the_progress_matters(tmp_path, monkeypatch):
    def flat():
        return {"loss": 1.0}

    def account(folder):
        progress = json.loads((folder / "checkpoints/step-00000012/state.json").read_text())["progress"]
        return told(folder), {**progress, "seconds": 0}

    run(tmp_path / "whole", evaluate=flat)
    parts = {"step": 8, "tokens": 0, "best": None, "best_step": None, "waited": 0, "since": {}}
    for name, lost in {None: None, **parts}.items():
        interrupt(tmp_path / str(name), after=10, evaluate=flat)
        with monkeypatch.context() as patch:
            forget = {name: lost} if name else {}
            patch.setattr(saving, "Progress", lambda forget=forget, **kept: Progress(**kept | forget))
            run(tmp_path / str(name), evaluate=flat)
        assert (account(tmp_path / str(name)) == account(tmp_path / "whole")) == (name is None), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_on_a_gpu_a_resumed_run_is_the_same(tmp_path, precision):
    config = replace(CONFIG, precision=precision)
    interrupt(tmp_path / "stopped", config, evaluate=None, device="cuda")
    resumed = run(tmp_path / "stopped", config, asked=tiny().cuda(), evaluate=None).weights
    whole = run(tmp_path / "whole", config, asked=tiny().cuda(), evaluate=None).weights
    assert resumed["model.embed.weight"].is_cuda
    assert_near(resumed, whole, 1e-5)


def test_ctrl_c_is_130_and_handlers_come_back(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    assert interrupt(tmp_path, number=signal.SIGINT).exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_has_its_usual_effect(tmp_path):
    asked = tiny()
    prepare = asked.prepare

    def twice(batch):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return prepare(batch)

    asked.prepare = twice
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, asked=asked)
    assert_equal(run(tmp_path).weights, run(tmp_path / "whole").weights)


# Killing


def start(folder, **changes):
    process = PROCESSES.Process(target=run_and_save, args=(folder, LONG | changes))
    process.start()
    return process


def finish(folder, **changes):
    process = start(folder, **changes)
    process.join()
    assert process.exitcode == 0
    return load_file(folder / "outcome.safetensors")


def test_killed_at_any_instant_it_ends_the_same(tmp_path):
    """With a save every second step and an evaluation every fifth, most instants are inside one of them."""
    finish(tmp_path / "first")
    began = time.monotonic()
    whole = finish(tmp_path / "whole")
    seconds = time.monotonic() - began
    kills, draw = 0, torch.Generator().manual_seed(0)
    while kills < 20:
        process = start(tmp_path / "killed")
        process.join(float(torch.rand((), generator=draw)) * seconds)
        process.kill()
        process.join()
        if process.exitcode == 0:  # it had come to its end: kill another run
            assert_equal(load_file(tmp_path / "killed/outcome.safetensors"), whole)
            (tmp_path / "killed").rename(tmp_path / f"ended-{len(os.listdir(tmp_path))}")
        else:
            assert process.exitcode == -signal.SIGKILL
            kills += 1
    assert_equal(finish(tmp_path / "killed"), whole)
    assert told(tmp_path / "killed") == told(tmp_path / "whole")
    assert not list((tmp_path / "killed/checkpoints").glob(".*"))


def test_sigterm_from_outside_saves_and_exits_143(tmp_path):
    process = start(tmp_path, steps=100_000)
    while not (tmp_path / "checkpoints").exists():
        time.sleep(0.01)
    process.terminate()
    process.join()
    assert process.exitcode == 143
    assert not (tmp_path / "finished.json").exists()
    assert checkpoints(tmp_path)


# Damage


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", [spoil, os.unlink, lambda path: os.truncate(path, 10)])
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_used(tmp_path, name, damage):
    interrupt(tmp_path, after=5)
    damaged = tmp_path / "checkpoints/step-00000005" / name
    damage(damaged)
    heard = Heard()
    resumed = run(tmp_path, reporter=heard)
    place = damaged if name != "manifest.json" or damage is not spoil else damaged.parent
    assert str(place) in heard.said[0] and "not be used" in heard.said[0]
    assert "Resuming after step 4." in heard.said
    assert_equal(resumed.weights, run(tmp_path / "whole").weights)


def test_when_all_are_damaged_nothing_is_begun_again(tmp_path):
    interrupt(tmp_path, after=5)
    for path in tmp_path.glob("checkpoints/*/model.safetensors"):
        spoil(path)
    kept = checkpoints(tmp_path)
    with pytest.raises(Problem, match="every checkpoint is damaged"):
        run(tmp_path)
    assert checkpoints(tmp_path) == kept


@pytest.mark.parametrize("damage", [spoil, lambda path: os.truncate(path, 10), lambda path: os.truncate(path, 0)])
def test_what_a_damaged_finished_json_said_is_worked_out_again(tmp_path, damage):
    config = replace(CONFIG, average=3)
    whole, content = run(tmp_path, config), (tmp_path / "finished.json").read_bytes()
    damage(tmp_path / "finished.json")
    heard = Heard()
    again = run(tmp_path, config, reporter=heard)
    assert f"{tmp_path / 'finished.json'} is damaged" in heard.said[0]
    assert_equal(again.weights, whole.weights)
    assert (again.best, again.chosen) == (whole.best, whole.chosen)
    assert (tmp_path / "finished.json").read_bytes() == content


def test_every_flipped_byte_of_finished_json_is_noticed(tmp_path):
    whole, place = run(tmp_path), tmp_path / "finished.json"
    content = place.read_bytes()
    for at in range(len(content)):
        place.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with suppress(Problem):
            assert json.loads(content) == read_checked_json(place) | {"sha256": json.loads(content)["sha256"]}
    assert_equal(run(tmp_path).weights, whole.weights)


def test_damaged_best_weights_are_named_and_the_last_taken_only_once_they_are_removed(tmp_path):
    scores = [10.0, 30.0, 20.0, 15.0, 12.0, 11.0]
    config = replace(CONFIG, evaluate_every=2, best="highest bleu", keep=1)
    run(tmp_path, config, evaluate=scripted(scores))
    best = tmp_path / "checkpoints/step-00000004"
    spoil(best / "model.safetensors")
    with pytest.raises(Problem, match=rf"{best}/model.safetensors is damaged.*needs these weights, of step 4.*remove"):
        run(tmp_path, config, evaluate=scripted([]))
    shutil.rmtree(best)
    heard = Heard()
    outcome = run(tmp_path, config, evaluate=scripted([11.0]), reporter=heard)
    assert (outcome.chosen, outcome.best) == ("last", 11.0)
    assert any("step 4, were removed" in text for text in heard.said)


def test_the_last_good_checkpoint_outlives_a_bad_newest(tmp_path, monkeypatch):
    """A disk that spoils what it is given: with keep=1 nothing may be removed on its word."""
    write = saving.write_folder

    def write_badly(path, files):
        write(path, files)
        if path.name > "step-00000004":
            spoil(path / "model.safetensors")

    monkeypatch.setattr(saving, "write_folder", write_badly)
    with pytest.raises(Problem, match="damaged"):
        run(tmp_path, replace(CONFIG, keep=1))
    monkeypatch.undo()
    assert "step-00000004" in checkpoints(tmp_path)
    assert_equal(run(tmp_path, replace(CONFIG, keep=1)).weights, run(tmp_path / "whole").weights)


def test_a_checkpoint_that_cannot_be_removed_is_survived(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(13, "Permission denied", str(path))

    monkeypatch.setattr(saving, "remove_folder", refuse)
    heard = Heard()
    outcome = run(tmp_path, reporter=heard)
    assert outcome.step == 12
    assert any("could not be removed" in text and "step-00000002" in text for text in heard.said)
    assert len(checkpoints(tmp_path)) == 6


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path):
    interrupt(tmp_path, after=5)
    before = checkpoints(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(Problem, match=r"step-00000006 could not be written \([\d,]+ bytes\): File too large"):
            run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoints(tmp_path) == before
    assert_equal(run(tmp_path).weights, run(tmp_path / "whole").weights)


def test_order_is_by_step_and_not_by_time(tmp_path):
    interrupt(tmp_path, after=5)
    os.utime(tmp_path / "checkpoints/step-00000005", (0, 0))
    heard = Heard()
    run(tmp_path, reporter=heard)
    assert heard.said == ["Resuming after step 5."]


# What may change and what may not


def test_a_finished_run_says_so_and_returns_what_it_came_to(tmp_path):
    class NoMore(CountingRows):
        def at(self, position):
            raise AssertionError("a finished run takes no step")

    first, metrics = run(tmp_path), (tmp_path / "metrics.jsonl").read_bytes()
    heard = Heard()
    again = run(tmp_path, batches=NoMore(), reporter=heard)
    assert_equal(first.weights, again.weights)
    assert (again.step, again.best, again.chosen, again.exit_code) == (12, first.best, first.chosen, 0)
    assert "is finished, at step 12" in heard.said[0]
    assert (tmp_path / "metrics.jsonl").read_bytes() == metrics


def test_a_finished_run_goes_on_when_given_more_steps(tmp_path):
    constant = replace(CONFIG.optimizer, schedule="constant")
    short, long = (replace(CONFIG, steps=steps, optimizer=constant) for steps in (8, 12))
    run(tmp_path / "extended", short)
    assert_equal(run(tmp_path / "extended", long).weights, run(tmp_path / "whole", long).weights)


def test_changed_data_is_refused_unless_allowed(tmp_path):
    interrupt(tmp_path, fingerprint="aaa")
    with pytest.raises(Problem, match=r"step-00000005 was trained on other data \(fingerprint aaa, now bbb\)"):
        run(tmp_path, fingerprint="bbb")
    assert run(tmp_path, fingerprint="bbb", allow_changed_data=True).step == 12


def test_a_setting_that_the_version_before_did_not_know_was_off():
    before = {"seed": 1, "optimizer": {"rate": 0.1}}
    assert differences(before, {"seed": 1, "optimizer": {"rate": 0.1, "relative": False}, "label_map": []}) == []
    assert differences(before, {"seed": 1, "optimizer": {"rate": 0.1, "relative": True}}) == [
        "optimizer.relative=None, now True"
    ]


def test_changed_settings_are_listed_and_safe_ones_allowed(tmp_path):
    interrupt(tmp_path)
    changed = replace(CONFIG, seed=5, optimizer=replace(CONFIG.optimizer, rate=0.5))
    with pytest.raises(Problem, match=r"optimizer\.rate=0\.02, now 0\.5; seed=0, now 5"):
        run(tmp_path, changed)
    with pytest.raises(Problem, match=r"micro-batches a step \(accumulate x ranks\): 1, now 2"):
        run(tmp_path, replace(CONFIG, accumulate=2))
    assert run(tmp_path, replace(CONFIG, steps=14, report_every=1, save_every=5, keep=1, patience=9)).step == 14


def test_another_model_is_refused_by_name(tmp_path):
    interrupt(tmp_path)
    asked = tiny()
    asked.model.inner = torch.nn.Linear(16, 8)
    with pytest.raises(Problem, match=r"another model: model\.inner\.bias is \[16\], here \[8\]"):
        run(tmp_path, asked=asked)


def test_another_format_is_refused_with_its_version(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(saving, "FORMAT", 99)
        patch.setattr("regard.__version__", "9.9")
        interrupt(tmp_path)
    with pytest.raises(Problem, match=r"regard 9\.9 in format 99"):
        run(tmp_path)


def test_a_second_process_on_the_folder_is_refused(tmp_path):
    process = start(tmp_path, steps=100_000)
    while not (tmp_path / "checkpoints").exists():
        time.sleep(0.01)
    with pytest.raises(Problem, match=rf"in use by process {process.pid} on "):
        run(tmp_path, replace(CONFIG, **LONG))
    process.kill()
    process.join()
    with locked(tmp_path):  # what a killed process held is free
        pass


def test_no_pickle_is_written(tmp_path):
    run(tmp_path)
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds == {".safetensors", ".json", ".jsonl", ""}


# Stopping early, and which weights are chosen


def scripted(scores):
    given = iter(scores)
    return lambda: {"bleu": next(given)}


def test_patience_stops_and_the_best_weights_are_chosen(tmp_path):
    config = replace(CONFIG, evaluate_every=2, best="highest bleu", patience=2, keep=1)
    outcome = run(tmp_path, config, evaluate=scripted([10.0, 30.0, 20.0, float("nan")]))
    assert (outcome.step, outcome.best, outcome.stopped_because, outcome.chosen) == (8, 30.0, "patience", "best")
    assert_equal(outcome.weights, run(tmp_path / "four", replace(config, steps=4, patience=0), evaluate=None).weights)
    assert checkpoints(tmp_path) == ["step-00000004", "step-00000008"]
    assert run(tmp_path, config, evaluate=scripted([])).stopped_because == "patience"
    assert '"nan"' in (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.parametrize(("score", "chosen"), [(31.0, "average"), (29.0, "best")])
def test_the_average_is_chosen_when_it_is_better(tmp_path, score, chosen):
    config = replace(CONFIG, evaluate_every=6, best="highest bleu", average=3)
    outcome = run(tmp_path, config, evaluate=scripted([30.0, 20.0, score]))
    assert (outcome.chosen, outcome.best) == (chosen, max(score, 30.0))
    assert records(tmp_path)[-1] == {"step": 12, "evaluation": {"bleu": score}, "weights": "average"}
    assert_equal(run(tmp_path, replace(config, average=0), evaluate=scripted([])).weights, outcome.weights)
