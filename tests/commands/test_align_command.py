"""From pairs to a reward model, and from that to a model that writes what is preferred; and straight from pairs."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file
from toy_examples import make_encoder
from toy_preferences import make_language_model, pairs, write_pairs, write_prompts

from regard.commands.align import align
from regard.commands.finetune import finetune
from regard.commands.load import load
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.models.folder import load_published
from regard.objectives.clipped import Clipped
from regard.tasks.writer import Writer

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other
FILES = {"train": (320, 0), "dev": (80, 1)}  # pairs, and their seed
SHORT = {"steps": 8, "texts": 16, "batch": 8, "passes": 2, "most": 6, "rate": 1e-3, "report_every": 2}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A language model, pairs, prompts, and a reward model that has learned the pairs."""
    folder = tmp_path_factory.mktemp("preferences")
    make_language_model(folder / "lm")
    train, dev = (write_pairs(folder / f"{name}.jsonl", pairs(*how)) for name, how in FILES.items())
    write_prompts(folder / "prompts.txt")
    finetune(folder / "lm", "reward", train=train, dev=dev, out=folder / "reward", epochs=5.0, rate=5e-3, batch=32)
    return folder


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def evaluations(folder):
    return [record["evaluation"] for record in records(folder) if "evaluation" in record]


def test_a_reward_model_learns_what_is_preferred(toy):
    reward = load(toy / "reward")
    assert reward.name == "reward"
    assert reward("a film is great fine") > reward("a film is awful dull")
    [accuracy, _] = reward.evaluate(reward.task.read(toy / "dev.jsonl", Reading()))
    assert accuracy.value >= 85


def test_ppo_raises_the_reward_and_says_how(toy, tmp_path, capsys):
    told = {"steps": 96, "texts": 32, "batch": 32, "passes": 2, "most": 8, "rate": 3e-3, "kl": 0.02, "target_kl": 10.0}
    writer = align(toy / "lm", reward=toy / "reward", prompts=toy / "prompts.txt", out=tmp_path / "run", **told)
    first, *_, last = [record for record in records(tmp_path / "run") if "loss" in record]
    for name in ("reward", "kl", "coefficient", "entropy", "value_loss", "clipped"):
        assert name in first, name
    assert last["reward"] > first["reward"] + 0.5 and 0 < last["kl"] < 20
    assert last["coefficient"] != first["coefficient"]
    samples = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert {"step", "prompt", "text", "reward"} <= samples[-1].keys() and samples[-1]["step"] == 96
    printed = capsys.readouterr().err
    assert "40 prompts" in printed and "kl " in printed and samples[-1]["prompt"] in printed
    assert isinstance(writer, Writer) and isinstance(load(tmp_path / "run"), Writer)
    assert "judged by: reward" in (tmp_path / "run" / "model" / "README.md").read_text()
    config = load_published(tmp_path / "run" / "model").model.encoder.config
    assert config == load_published(toy / "lm").model.encoder.config  # its dropout too


@pytest.mark.parametrize("stopped", [2, 3])  # in the middle of a phase of four steps
def test_a_resumed_run_is_the_unbroken_one(toy, tmp_path, stopped):
    told = {"reward": toy / "reward", "prompts": toy / "prompts.txt", **SHORT, "evaluate_every": 4, "save_every": 1}
    align(toy / "lm", out=tmp_path / "whole", **told)
    broken(tmp_path / "again", toy, told, stopped)
    whole, again = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "again"))
    assert whole.keys() == again.keys() and all(torch.equal(whole[name], again[name]) for name in whole)
    assert timeless(tmp_path / "whole") == timeless(tmp_path / "again")
    assert (tmp_path / "whole" / "samples.jsonl").read_text() == (tmp_path / "again" / "samples.jsonl").read_text()


def broken(folder, toy, told, stopped):
    """A run that hears SIGTERM in a step, and then goes on."""
    judged, count = Clipped.judge, 0

    def judge(self, model, batch):
        nonlocal count
        count += 1
        if count == stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        return judged(self, model, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(Clipped, "judge", judge)
        align(toy / "lm", out=folder, **told)
    assert ended.value.code == 143
    align(toy / "lm", out=folder, **told)


def timeless(folder):
    return [
        {name: value for name, value in record.items() if name not in ("seconds", "tokens_per_second")}
        for record in records(folder)
    ]


def test_pairs_alone_will_do(toy, tmp_path):
    told = {"epochs": 3.0, "rate": 2e-3, "batch": 32, "precision": "float32"}
    files = {"train": toy / "train.jsonl", "dev": toy / "dev.jsonl"}
    align(toy / "lm", objective="direct", out=tmp_path / "run", **files, **told)
    first, *_, last = evaluations(tmp_path / "run")
    assert last["right"] > 0.85 and last["loss"] < first["loss"] < 0.7
    assert last["chosen"] > last["rejected"]
    assert isinstance(load(tmp_path / "run"), Writer)


def test_files_and_ways_must_fit(toy, tmp_path):
    lm, reward, prompts, train = toy / "lm", toy / "reward", toy / "prompts.txt", toy / "train.jsonl"
    for told, problem in [
        ({}, "PPO needs a reward model and prompts"),
        ({"reward": reward}, "PPO needs a reward model and prompts"),
        ({"reward": reward, "train": train}, "are pairs, and PPO needs prompts"),
        ({"objective": "direct"}, "needs train=FILE"),
        ({"objective": "direct", "train": train, "reward": reward}, "learns from pairs alone"),
        ({"prompts": prompts, "train": train}, "both prompts"),
        ({"reward": reward, "prompts": prompts, "texts": 10, "batch": 4}, "do not divide into batches of 4"),
        ({"reward": reward, "prompts": prompts, "target_kl": 0.0}, "target_kl=0.0: give a number above 0"),
        ({"reward": reward, "prompts": prompts, "objective": "ppo"}, "'ppo' is not one of clipped, direct"),
    ]:
        with pytest.raises(UsageProblem, match=problem):
            align(lm, out=tmp_path / "run", **told)
    assert not (tmp_path / "run").exists()


def test_models_must_fit(toy, tmp_path):
    told = {"prompts": toy / "prompts.txt", "out": tmp_path / "run"}
    with pytest.raises(Problem, match="was not fine-tuned"):
        align(toy / "lm", reward=toy / "lm", **told)
    with pytest.raises(Problem, match="not trained to write"):
        align(toy / "reward", reward=toy / "reward", **told)


def test_what_is_too_long_is_left_out_and_named(toy, tmp_path, capsys):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("so\n" + "film " * 60 + "\n")
    align(toy / "lm", reward=toy / "reward", prompts=prompts, out=tmp_path / "ppo", **{**SHORT, "steps": 1})
    told = capsys.readouterr().err
    assert "1 of 2 are left out" in told and "line 2" in told and "--most" in told
    prompts.write_text("film " * 60 + "\n")
    with pytest.raises(Problem, match="no prompt leaves room to write"):
        align(toy / "lm", reward=toy / "reward", prompts=prompts, out=tmp_path / "other", **SHORT)

    long, deep = (
        {"chosen": "film " * 60, "rejected": "dull"},
        {"prompt": "film " * 60, "chosen": " a", "rejected": " b"},
    )
    train = write_pairs(tmp_path / "pairs.jsonl", [*pairs(8), long, deep])
    align(toy / "lm", objective="direct", train=train, out=tmp_path / "dpo", batch=4)
    told = capsys.readouterr().err
    assert "1 of 10 are left out" in told and "line 9" in told and "1 prompts lose their beginning" in told
    with pytest.raises(Problem, match="no pair is short enough"):
        align(toy / "lm", objective="direct", train=write_pairs(train, [long]), out=tmp_path / "none")


def test_another_reward_model_is_other_data(toy, tmp_path):
    told = {"prompts": toy / "prompts.txt", "out": tmp_path / "run", **SHORT}
    shutil.copytree(toy / "reward" / "model", tmp_path / "judge")
    align(toy / "lm", reward=tmp_path / "judge", **told)
    shutil.rmtree(tmp_path / "judge")
    made = {"train": toy / "train.jsonl", "dev": toy / "dev.jsonl", "epochs": 1.0, "rate": 1e-3}
    finetune(toy / "lm", "reward", out=tmp_path / "new", seed=5, **made)
    shutil.copytree(tmp_path / "new" / "model", tmp_path / "judge")
    with pytest.raises(Problem, match="other data"):
        align(toy / "lm", reward=tmp_path / "judge", **{**told, "steps": 12})


def test_an_encoder_with_another_vocabulary_may_judge(toy, tmp_path):
    made = {"train": toy / "train.jsonl", "dev": toy / "dev.jsonl", "epochs": 1.0, "rate": 1e-3}
    finetune(make_encoder(tmp_path / "bert"), "reward", out=tmp_path / "judge", **made)
    align(toy / "lm", reward=tmp_path / "judge", prompts=toy / "prompts.txt", out=tmp_path / "run", **SHORT)
    assert len(evaluations(tmp_path / "run")) == 8


def test_the_command_line_does_the_same(toy, tmp_path, call):
    told = ["--reward", toy / "reward", "--prompts", toy / "prompts.txt", "--steps", 2, "--texts", 8, "--batch", 8]
    done = call("align", toy / "lm", *told, "--most", 4, "--out", tmp_path / "run")
    assert done.code == 0 and "reward" in done.err, done.err
    assert call("align", toy / "lm", "--objective", "direct", "--out", tmp_path / "x").code == 2
    good, bad = (call("classify", "a film is " + words, "--model", toy / "reward").out for words in ("fine", "dull"))
    assert float(good) > float(bad)
