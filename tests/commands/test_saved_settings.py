"""What `--set` changes is saved with the model: the folder that a run leaves computes what the run trained, every
command reads it, and no other library takes it for the published model."""

from __future__ import annotations

import json

import pytest
import torch
from toy_examples import QUICK, shape

import regard

LINES = ["the cat sat on the mat\n", "a dog ran to the cat\n", "on the mat the dog sat\n"] * 20
SHORT = ["--steps", 6, "--longest", 16, "--budget", 64, "--rate", 1e-2, "--report-every", 3, "--evaluate-every", 6]
WORDS = ["--vocab", 300, "--pieces", "words"]
ROTARY = ["--set", "stack.block.attention.positions=rotary"]
FIRST = ["--set", "stack.block.norm_first=true", "--set", "stack.final_norm=true"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "train.txt").write_text("".join(LINES))
    (folder / "dev.txt").write_text("".join(LINES[:30]))
    (folder / "stories.txt").write_text("".join(f"{line}{line}\n" for line in LINES))
    return folder


def settings_in(folder) -> dict:
    return json.loads((folder / "model" / "config.json").read_text())


def last_loss(folder) -> float:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return records[-1]["evaluation"]["loss"]


@pytest.mark.parametrize("change", [ROTARY, ["--set", "stack.block.norm=rms"], ["--set", "stack.block.gated=true"]])
def test_a_language_model_evaluates_as_its_run_did(call, texts, tmp_path, change):
    run = ["pretrain", "gpt2-tiny", texts / "train.txt", "--dev", texts / "dev.txt", "--out", tmp_path / "run"]
    done = call(*run, *SHORT, *WORDS, "--set", "stack.layers=1", *change)
    assert done.code == 0, done.err
    told = call("evaluate", "--model", tmp_path / "run", texts / "dev.txt", "--json", "--longest", 16, "--stride", 16)
    loss = next(score["value"] for score in json.loads(told.out)["scores"] if score["metric"] == "loss")
    assert loss == pytest.approx(last_loss(tmp_path / "run"), abs=1e-5)
    path, _, value = change[1].partition("=")
    assert settings_in(tmp_path / "run")["regard"] == {path: json.loads(value) if value == "true" else value}


@pytest.fixture(scope="module")
def norm_first(texts, tmp_path_factory):
    """A BERT whose norms come first, as a run has trained it; and the run's folder."""
    folder = tmp_path_factory.mktemp("bert") / "run"
    settings = {"steps": 4, "longest": 16, "budget": 64, "vocab": 60, "rate": 1e-2}
    changes = tuple(word for word in (*shape(), *FIRST) if word != "--set")
    return regard.pretrain("bert-tiny", [texts / "stories.txt"], out=folder, set=changes, **settings), folder


def test_an_encoder_whose_norms_come_first_comes_back_so(norm_first):
    trained, folder = norm_first
    loaded = regard.load(folder, "cpu")
    assert loaded.model.encoder.config == trained.model.encoder.config
    assert loaded.model.encoder.config.stack.block.norm_first
    one, other = (torch.from_numpy(reader.embed(["the cat sat"])) for reader in (trained, loaded))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_every_command_reads_such_a_folder(call, norm_first, examples, tmp_path):
    folder = norm_first[1]
    shown = call("show", folder / "model")
    assert shown.code == 0 and "norm_first: True" in shown.out
    assert call("look", "--model", folder, "the cat sat", "--out", tmp_path / "look.html").code == 0
    more = ["--train", examples[0], "--dev", examples[1], "--out", tmp_path / "tuned"]
    tuned = call("finetune", folder / "model", "classify", *more, *QUICK)
    assert tuned.code == 0, tuned.err
    assert settings_in(tmp_path / "tuned")["architectures"] == ["RegardBertForSequenceClassification"]
    assert call("classify", "--model", tmp_path / "tuned", "the film is good").code == 0


def test_another_library_does_not_misread_such_a_folder(norm_first):
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    said = settings_in(norm_first[1])
    assert said["model_type"] == "regard-bert" and said["architectures"] == ["RegardBertForPreTraining"]
    for kind in (transformers.AutoConfig, transformers.AutoModel, transformers.AutoModelForMaskedLM):
        with pytest.raises(ValueError, match="regard-bert"):
            kind.from_pretrained(norm_first[1] / "model")


def test_dropout_alone_does_not_hide_a_model_from_others(call, texts, tmp_path):
    change = ["--set", "stack.block.inner_dropout=0.2"]
    run = ["pretrain", "gpt2-tiny", texts / "train.txt", "--out", tmp_path / "run", *SHORT, *WORDS, *change]
    assert call(*run).code == 0
    said = settings_in(tmp_path / "run")
    assert said["model_type"] == "gpt2" and said["regard"] == {"stack.block.inner_dropout": 0.2}
    assert regard.load(tmp_path / "run", "cpu").model.encoder.config.stack.block.inner_dropout == 0.2


@pytest.mark.parametrize(
    "model, change, told",
    [
        ("bigram", "pairs=3", "--set pairs=3: bigrams are counted"),
        ("gpt2-tiny", "embedding.vocab=9", "--set embedding.vocab: its vocabulary decides that"),
        ("gpt2-tiny", "embedding.width=64", "embedding.width=64, stack.block.width=128: these must be equal"),
        ("gpt2-tiny", "stack.block.cross=true", "stack.block.cross must be false"),
        ("t5-tiny", "embedding.vocab=9", "--set embedding.vocab: its vocabulary decides that"),
        ("t5-tiny", "decoder.block.gated=true", "change encoder.block.gated and decoder.block.gated in the same way"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_run(call, texts, tmp_path, model, change, told):
    done = call("pretrain", model, texts / "train.txt", "--out", tmp_path / "run", *SHORT, "--set", change)
    assert done.code == 2 and told in done.err, done.err
    assert not (tmp_path / "run").exists()
