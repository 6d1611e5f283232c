"""T5 from text to a folder: pretraining on gaps, any task as text to text, going on, and what is refused."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
import torch
from toy import DEV, TRAIN, training
from toy import SMALL as TOY
from toy_examples import reviews, write_stories, write_table

import regard
from regard.checkpoints.files import load_tensors
from regard.commands.pretraining_run import PretrainingRun
from regard.commands.settings import PretrainingSettings
from regard.commands.spans_run import SpansRun
from regard.training.optimizer import size_of

SIDES = ("encoder", "decoder")
SHAPE = ["embedding.width=24"] + [
    f"{side}.{one}"
    for side in SIDES
    for one in ("layers=1", "block.width=24", "block.inner=48", "block.attention.heads=2", "block.attention.size=12")
]
SMALL = [word for one in SHAPE for word in ("--set", one)]
SHORT = ["--steps", 4, "--budget", 300, "--longest", 32, "--save-every", 2, "--report-every", 1, "--rate", "1e-3"]
NAMES = {"pos": "positive", "neg": "negative"}


def examples(folder):
    """Reviews whose labels are words."""
    for name, count, seed in (("train", 120, 0), ("dev", 24, 1), ("test", 24, 2)):
        rows = [row | {"label": NAMES[row["label"]]} for row in reviews(count, seed)]
        write_table(folder / f"{name}.csv", rows)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_stories(tmp_path_factory.mktemp("text") / "stories.txt")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return examples(tmp_path_factory.mktemp("reviews"))


@pytest.mark.parametrize("model", ["t5-tiny", "t5-v1.1-small"])
def test_spans_make_a_folder_that_the_reference_reads(call, text, tmp_path, model):
    more = ["--objective", "spans", "--vocab", 170, "--dev", text, "--evaluate-every", 2]
    done = call("pretrain", model, text, "--out", tmp_path / "run", *SHORT, *SMALL, *more)
    assert done.code == 0, done.err
    assert "asked: spans;" in done.err and done.err.count("evaluation  loss") == 2
    again = call("pretrain", model, text, "--out", tmp_path / "run", *SHORT, *SMALL, *more)
    assert again.code == 0 and "step 1/4" not in again.err  # it was finished
    ours = regard.load(tmp_path / "run", "cpu")
    assert len(ours.source.sentinels) == 100
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    folder = tmp_path / "run" / "model"
    theirs, told = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert type(theirs).__name__ == "T5ForConditionalGeneration"
    assert not any(told[keys] for keys in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    reads, given = transformers.AutoTokenizer.from_pretrained(folder), "The film is so good."
    assert reads(given)["input_ids"] == ours.row(ours.source.encode(given))


def test_a_run_whose_last_steps_are_lost_comes_to_the_same_weights(call, text, tmp_path):
    """Rates are shares of what tensors begin with, and not of what they are when a run is resumed."""
    out = tmp_path / "run"
    command = ["pretrain", "t5-tiny", text, "--out", out, *SHORT[:-1], "3", *SMALL, "--vocab", 170]
    assert call(*command).code == 0
    before = load_tensors(out / "model" / "model.safetensors")
    far = load_tensors(out / "checkpoints" / "step-00000002" / "model.safetensors")
    assert any(size_of(tensor) > 1 for tensor in far.values())  # none began as large
    shutil.rmtree(out / "model")
    shutil.rmtree(out / "checkpoints" / "step-00000004")
    (out / "finished.json").unlink()
    again = call(*command)
    assert again.code == 0 and "Resuming after step 2" in again.err, again.err
    after = load_tensors(out / "model" / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    "kind, told, rate, decay, relative",
    [
        (SpansRun, {}, 1e-2, 0.0, True),
        (SpansRun, {"relative": False}, 1e-4, 0.01, False),
        (SpansRun, {"rate": 3e-3, "weight_decay": 0.1}, 3e-3, 0.1, True),
        (PretrainingRun, {}, 1e-4, 0.01, False),
    ],
)
def test_rates_of_a_t5_are_its_own_unless_others_are_asked_for(tmp_path, kind, told, rate, decay, relative):
    found = kind(PretrainingSettings(**told), "t5-tiny", tmp_path, tmp_path).optimizer()
    assert (found.rate, found.weight_decay, found.relative) == (rate, decay, relative)


def test_spans_go_on_from_a_folder(call, text, tmp_path):
    first = ["pretrain", "t5-tiny", text, "--out", tmp_path / "one", *SHORT, *SMALL, "--vocab", 170]
    assert call(*first).code == 0
    more = ["pretrain", tmp_path / "one", text, "--objective", "spans", "--out", tmp_path / "two", *SHORT]
    done = call(*more)
    assert done.code == 0 and f"goes on from {tmp_path / 'one'}" in done.err, done.err
    before, after = (load_tensors(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    assert before.keys() == after.keys()
    assert not torch.equal(before["shared.weight"], after["shared.weight"])


def test_a_tiny_t5_learns_to_answer(call, data, tmp_path):
    """And answers what is new to it, as a filter and when it is measured."""
    files = [word for name in ("train", "dev", "test") for word in (f"--{name}", data / f"{name}.csv")]
    shape = ["--model", "t5-tiny", *SMALL, "--tokenizer", "words", "--vocab", 140, "--template", "sst2: {text}"]
    pace = ["--steps", 120, "--rate", "0.01", "--warmup", 10, "--budget", 512, "--evaluate-every", 60]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few words
        done = call("train", "text", *files, *shape, *pace, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "exact match 100.00" in done.out
    lines = ["sst2: the film is great a is", "sst2: so dull the film", ""]
    found = call("translate", "--model", tmp_path / "run", stdin="\n".join(lines).encode())
    assert found.out.splitlines() == ["positive", "negative"]
    scored = call("evaluate", "--model", tmp_path / "run", data / "test.csv", "--json")
    exact = next(one for one in json.loads(scored.out)["scores"] if one["metric"] == "exact match")
    assert exact["value"] == 100 and exact["detail"] == "24 of 24"
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["regard_template"] == "sst2: {text}" and config["model_type"] == "t5"


def test_without_a_dev_file_a_tenth_is_held_out_and_labels_are_counted(call, data, tmp_path):
    files = ["--train", data / "train.csv", "--model", "t5-tiny", "--out", tmp_path / "run", *SMALL]
    done = call("train", "text", *files, *SHORT, "--vocab", 140, "--longest", 90, "--warmup", 1, "--evaluate-every", 4)
    assert done.code == 0, done.err
    assert "no dev files: " in done.err and "labels: " in done.err and "majority share 5" in done.err


def test_a_folder_is_fine_tuned_with_its_own_vocabulary(call, text, data, tmp_path):
    first = ["pretrain", "t5-v1.1-small", text, "--out", tmp_path / "one", *SHORT, *SMALL, "--vocab", 170]
    assert call(*first).code == 0
    files = ["--train", data / "train.csv", "--dev", data / "dev.csv", "--model", tmp_path / "one"]
    pace = ["--evaluate-every", 2, "--longest", 90, "--warmup", 1]
    done = call("train", "text", *files, "--out", tmp_path / "two", *SHORT, *pace)
    assert done.code == 0, done.err
    one, two = (regard.load(tmp_path / name, "cpu") for name in ("one", "two"))
    assert one.source.to_json() == two.source.to_json() and two.template == "{text}" and not one.template
    assert not torch.equal(one.model.out.weight, two.model.out.weight)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--model", "t5-tin"], "did you mean 't5-tiny'?"),
        (["--template", "no column"], "a template names no column"),
        (["--template", "{sentense}"], "did you mean 'sentence'?"),
        (["--model", "t5-tiny", "--set", "encoder.block.inner=99"], "differ in their number of layers alone"),
        (["--model", "transformer-tiny"], "examples are turned into texts for T5"),
        (["--model", "t5-tiny", "--vocab", "90"], "has no room beside 103 special tokens"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(call, data, tmp_path, arguments, told):
    files = ["--train", data / "train.csv", "--dev", data / "dev.csv"]
    done = call("train", "text", *files, "--out", tmp_path / "run", *SHORT, "--warmup", 1, "--vocab", 140, *arguments)
    assert done.code == 2 and told in done.err, done.err
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_spans_are_asked_of_t5_alone(call, text, tmp_path, small_bert):
    for model, more, told in (
        ("t5-tiny", ["--objective", "masked"], "T5 cannot be asked 'masked'"),
        ("t5-tiny", ["--teacher", small_bert], "no use for a teacher"),
        ("t5-tiny", ["--tokenizer", small_bert], "no token for"),
        (small_bert, ["--objective", "spans"], "is an encoder"),
        ("bert-tiny", ["--objective", "spans"], "spans are asked of T5"),
    ):
        done = call("pretrain", model, text, "--out", tmp_path / "run", *SHORT, *more)
        assert done.code in (1, 2) and told in done.err, done.err


def test_any_translator_can_be_gone_on_from(call, corpus, tmp_path):
    assert call(*training(corpus, tmp_path / "one")).code == 0
    files = ["--train", *(corpus / name for name in TRAIN), "--dev", *(corpus / name for name in DEV)]
    more = ["--model", tmp_path / "one", "--out", tmp_path / "two", *TOY]
    done = call("train", "translate", *files, *more)
    assert done.code == 0, done.err
    one, two = (regard.load(tmp_path / name, "cpu") for name in ("one", "two"))
    assert one.source.to_json() == two.source.to_json() and one.model.config == two.model.config
    assert not torch.equal(one.model.out.weight, two.model.out.weight)
    refused = call("train", "translate", *files, *more, "--set", "encoder.layers=1")
    assert refused.code == 2 and "has learned as it is" in refused.err
