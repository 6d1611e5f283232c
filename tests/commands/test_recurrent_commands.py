"""Recurrent models by the commands that take any encoder: from a preset, from a folder, with words nobody has seen."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toy_examples import BAD, GOOD, REST, finetuning, make_examples, write_stories, write_tagged

from regard.commands.embed import embed
from regard.commands.load import load
from regard.commands.probe import probe
from regard.commands.verify import verify
from regard.text.tokenizer import Tokenizer

TASKS = ["classify", "pair", "regress", "choose", "tag"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    place = tmp_path_factory.mktemp("words") / "tokenizer.json"
    Tokenizer.train("words", [" ".join([*GOOD, *BAD, *REST[:-1], "."])], 64).save(place)  # "not" is unknown
    return place


@pytest.fixture
def pretrained(call, tokenizer, tmp_path):
    """A folder of a language model that has learned for a moment."""
    text = write_stories(tmp_path / "text.txt")

    def of(model: str, objective: str):
        out = tmp_path / f"pretrained-{model}"
        command = ["pretrain", model, text, "--tokenizer", tokenizer, "--objective", objective, "--out", out]
        done = call(*command, "--steps", 3, "--budget", 128, "--longest", 16)
        assert done.code == 0, done.err
        return out

    return of


@pytest.mark.parametrize("task", TASKS)
def test_an_lstm_from_nothing_learns_every_task_and_its_folder_says_the_same(call, tokenizer, tmp_path, task):
    train, dev = make_examples(tmp_path, task)
    done = call(*finetuning("lstm-tiny", task, train, dev, tmp_path / "run", "--tokenizer", tokenizer))
    assert done.code == 0, done.err
    inputs = {"pair": [("a good film", "a film")], "choose": [("a film", "is good", "is bad")]}
    inputs |= {"tag": [["a", "good", "film"]]}
    model = load(tmp_path / "run", "cpu")
    assert model.name == task and len(model.predict(inputs.get(task, ["a good film"]))) == 1
    assert any("all numbers finite" in line for line in verify(tmp_path / "run" / "model"))


def test_a_review_is_told_by_its_last_state(call, tokenizer, tmp_path):
    train, dev = make_examples(tmp_path, "classify")
    more = ["--tokenizer", tokenizer, "--epochs", 12, "--rate", 0.02, "--set", "dropout=0", "--batch", 8]
    done = call(*finetuning("lstm-tiny", "classify", train, dev, tmp_path / "run", *more))
    assert done.code == 0, done.err
    model = load(tmp_path / "run", "cpu")
    said = model.predict(["the film is great so a", "the film is awful so a", "great", "awful"])
    assert [answer.label for answer in said] == ["pos", "neg", "pos", "neg"]


@pytest.mark.parametrize(
    "preset, objective", [("awd-lstm-tiny", "next"), ("bilstm-tiny", "both"), ("elmo-tiny", "both")]
)
def test_a_language_model_becomes_a_classifier(call, pretrained, tmp_path, preset, objective):
    folder = pretrained(preset, objective)
    train, dev = make_examples(tmp_path, "classify")
    done = call(*finetuning(folder, "classify", train, dev, tmp_path / "run"))
    assert done.code == 0, done.err
    new = next(line for line in done.err.splitlines() if line.startswith("new, and to be learned: "))
    assert all(name.strip().startswith("heads.classify.") for name in new.partition(": ")[2].split(","))
    told = load(tmp_path / "run", "cpu").predict(["a good film", "", "an axolotl"])
    assert {answer.label for answer in told} <= {"pos", "neg"}


def test_elmos_layers_are_mixed_for_a_task(call, pretrained, tmp_path):
    """And a word outside the vocabulary is tagged by its characters."""
    folder, train = pretrained("elmo-tiny", "both"), write_tagged(tmp_path / "train.txt")
    more = ["--set", "mixed=true", "--set", "pool=last", "--ulmfit"]
    done = call(*finetuning(folder, "tag", train, train, tmp_path / "run", "--epochs", 8, *more))
    assert done.code == 0, done.err
    assert "encoder.mix.preferences, encoder.mix.scale, heads.tag" in done.err
    config = json.loads((tmp_path / "run/model/config.json").read_text())
    assert config["mixed"] and config["model_type"] == "elmo" and config["architectures"] == ["ElmoTagger"]
    model = load(tmp_path / "run", "cpu")
    [tags] = model.predict([["the", "axolotl", "is", "so", "good"]])
    assert len(tags.tags) == 5 and tags.unread == 0
    refused = call(*finetuning(folder, "tag", train, train, tmp_path / "other", "--set", "way=forward"))
    assert refused.code == 2 and "has learned as it is" in refused.err


def test_vectors_and_probes_of_a_folder(pretrained, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.tasks.mix.STEPS", 20)
    elmo, awd = pretrained("elmo-tiny", "both"), pretrained("awd-lstm-tiny", "next")
    vectors = embed(elmo, ["a good film", "an axolotl", "an okapi", ""], layers="mix 0.2 0.3 0.5", device="cpu")
    assert vectors.shape == (4, 32) and np.isfinite(vectors).all()
    assert not np.allclose(vectors[1], vectors[2])
    train, dev = make_examples(tmp_path, "classify")
    for folder, layers in ((elmo, ["first", "last"]), (awd, ["first", "last", "concat last 4"])):
        probed = probe(folder, "classify", train, dev, layers=layers, device="cpu")
        assert [one.layers for one in probed] == layers
    tagged = write_tagged(tmp_path / "tags.txt")
    assert probe(elmo, "tag", tagged, tagged, layers=["learned mix"], device="cpu")[0].mix is not None


@pytest.mark.parametrize("layers", ["sum of all", "mix 1 1 1 1", "learned mix"])
def test_layers_that_are_not_equally_wide_are_not_added(call, pretrained, tmp_path, layers):
    folder = pretrained("awd-lstm-tiny", "next")
    train, dev = make_examples(tmp_path, "classify")
    done = call("probe", "classify", train, "--model", folder, "--test", dev, "--layers", layers)
    assert done.code == 2 and "numbers cannot be added" in done.err, done.err


def test_words_are_told_from_the_right_or_from_both_sides(call, pretrained, tokenizer, tmp_path):
    context = load(pretrained("context2vec-tiny", "around"), "cpu")
    assert "masked" in context.model.heads and context.embed(["a good film"]).shape == (1, 32)
    text = write_stories(tmp_path / "more.txt")
    short = ["--tokenizer", tokenizer, "--dev", text, "--out", tmp_path / "run", "--steps", 3, "--budget", 64]
    small = ["--longest", 16, "--set", "embedding.width=8", "--set", "recurrent.width=8", "--set", "recurrent.last=8"]
    wrong = call("pretrain", "lstm-backward", text, *short, *small)
    assert wrong.code == 2 and "ask it for before" in wrong.err, wrong.err
    right = call("pretrain", "lstm-backward", text, *short, *small, "--objective", "before", "--out", tmp_path / "two")
    assert right.code == 0 and "loss" in right.err, right.err


@pytest.mark.parametrize("model", ["lstm", "awd-lstm", "bilstm", "gru", "rnn-lm", "elmo", "context2vec"])
def test_presets_are_shown(call, model):
    done = call("show", model)
    assert done.code == 0 and "parameters" in done.out, done.err


def test_elmo_needs_whole_words(call, tmp_path):
    pieces = tmp_path / "tokenizer.json"
    Tokenizer.train("byte-bpe", ["a good film"] * 3, 262).save(pieces)
    train, dev = make_examples(tmp_path, "classify")
    done = call(*finetuning("elmo-tiny", "classify", train, dev, tmp_path / "run", "--tokenizer", pieces))
    assert done.code == 2 and "vocabulary of the kind words" in done.err
