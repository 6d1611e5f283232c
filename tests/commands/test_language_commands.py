"""`regard pretrain` and `regard evaluate` of language models: from text to a folder, on from it, and its scores."""

from __future__ import annotations

import json

import pytest

LINES = ["the cat sat on the mat\n", "a dog ran to the cat\n", "on the mat the dog sat\n"] * 40
SHORT = ["--steps", 4, "--longest", 16, "--budget", 64, "--rate", 1e-2, "--report-every", 2, "--evaluate-every", 4]
SMALL = {
    "bigram": [],
    "gpt2-tiny": ["--set", "stack.layers=1"],
    "lstm-tiny": [],
    "transformer-xl-small": ["--set", "stack.layers=1", "--set", "memory=8"],
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text("".join(LINES))
    (folder / "dev.txt").write_text("".join(LINES[:30]))
    return folder


@pytest.mark.parametrize("model", SMALL)
def test_text_to_a_model_to_its_scores(call, texts, tmp_path, model):
    run = ["pretrain", model, texts / "train.txt", "--dev", texts / "dev.txt", "--vocab", 300, "--pieces", "words"]
    done = call(*run, "--out", tmp_path / "run", *SHORT, *SMALL[model])
    assert done.code == 0, done.err
    told = call("evaluate", "--model", tmp_path / "run", texts / "dev.txt", "--json")
    scores = {score["metric"]: score["value"] for score in json.loads(told.out)["scores"]}
    assert list(scores) == ["loss", "perplexity a token", "perplexity a word", "bits a byte"]
    assert scores["perplexity a token"] == scores["perplexity a word"]  # its tokens are words
    assert 0 < scores["bits a byte"] < 3


def test_unknown_words_are_told_and_spelled_out(call, texts, tmp_path):
    run = ["pretrain", "bigram", texts / "train.txt", "--dev", texts / "dev.txt", "--pieces", "words"]
    done = call(*run, "--vocab", 5, "--out", tmp_path / "run")
    assert done.code == 0 and "of the tokens of the text are unknown" in done.err
    assert "of the tokens of the held-out text are unknown" in done.err
    told = call("evaluate", "--model", tmp_path / "run", texts / "dev.txt")
    assert "warning: 5" in told.out and "spelled out at 8.01 bits per byte" in told.out
    small, large = (
        json.loads(call("evaluate", "--model", tmp_path / name, texts / "dev.txt", "--json").out)
        for name, vocab in (("run", 5), ("large", 300))
        if call(*run, "--vocab", vocab, "--out", tmp_path / name).code == 0
    )
    assert small["unknown_share"] > 0.5 and large["unknown_share"] == 0
    assert small["scores"][-1]["value"] > 4 > large["scores"][-1]["value"]


def test_a_folder_goes_on_as_what_it_is(call, texts, tmp_path):
    first = ["pretrain", "lstm-tiny", texts / "train.txt", "--out", tmp_path / "first", *SHORT]
    assert call(*first).code == 0
    done = call("pretrain", tmp_path / "first", texts / "dev.txt", "--out", tmp_path / "second", *SHORT)
    assert done.code == 0 and "asked: next" in done.err and "new: nothing" in done.err


def test_families_share_the_encoded_text(call, texts, tmp_path):
    for model in ("lstm-tiny", "gpt2-tiny"):
        more = ["--corpus", tmp_path / "corpus", "--pieces", "words", "--vocab", 300, *SHORT, *SMALL[model]]
        done = call("pretrain", model, texts / "train.txt", "--out", tmp_path / model, *more)
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    "model, more, told",
    [("gpt2-tiny", ["--activation", 2], "penalties are for recurrent models"),
     ("gpt2-tiny", ["--objective", "masked"], "no gpt2 has heads for masked"),
     ("bert-tiny", ["--objective", "next"], "no bert has heads for write"),
     ("lstm-tiny", ["--objective", "next+masked"], "cannot be asked together"),
     ("gpt2-tiny", ["--longest", 500, "--budget", 500], "places for 256"),
     ("lstm-tiny", ["--longest", 128], "no room for a row of 128")],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, texts, tmp_path, model, more, told):
    done = call("pretrain", model, texts / "train.txt", "--out", tmp_path / "run", *SHORT, *more)
    assert done.code in (1, 2) and told in done.err, done.err


def test_a_memory_is_asked_of_one_that_has_one(call, texts, tmp_path):
    run = ["pretrain", "gpt2-tiny", texts / "train.txt", "--out", tmp_path / "run", *SHORT, *SMALL["gpt2-tiny"]]
    assert call(*run).code == 0
    done = call("evaluate", "--model", tmp_path / "run", texts / "dev.txt", "--memory", 8)
    assert done.code == 2 and "only a model that remembers" in done.err
