"""`regard pretrain`: every family and its objectives, from text in every form; again, it goes on; what it refuses."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file
from toy import ENVIRONMENT, spawn
from toy_examples import SHORT, assert_same_weights, shape, stories, write_stories, write_table

import regard

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders
NARROW = {"albert-base": 8, "electra-small": 8}
FAMILIES = {
    "bert-tiny": ("masked+next-sentence", {"masked", "next"}, "BertForPreTraining"),
    "roberta-base": ("masked", {"masked"}, "RobertaForMaskedLM"),
    "distilbert-base": ("masked", {"masked"}, "DistilBertForMaskedLM"),
    "albert-base": ("masked+order", {"masked", "next"}, "AlbertForPreTraining"),
    "electra-small": ("replaced", {"replaced"}, "ElectraForPreTraining"),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_stories(tmp_path_factory.mktemp("text") / "stories.txt")


@pytest.fixture(scope="module")
def tokenizer(encoder):
    return encoder


def pretraining(model: object, texts: object, out: object, *more: object) -> list[object]:
    """The command that pretrains a small model for a moment; later options win."""
    small = shape(NARROW.get(str(model), 16)) if str(model) in FAMILIES else []
    return ["pretrain", model, *(texts if isinstance(texts, list) else [texts]), "--out", out, *SHORT, *small, *more]


def weights(folder) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


# Families and objectives


@pytest.mark.parametrize("model", FAMILIES)
def test_every_family_by_its_own_objective(call, text, tmp_path, model):
    """From a vocabulary of its own to a folder that the reference library reads to the last tensor."""
    objective, heads, architecture = FAMILIES[model]
    dev = write_stories(tmp_path / "dev.txt", 6, seed=1)
    done = call(*pretraining(model, text, tmp_path / "run", "--dev", dev, "--evaluate-every", 2))
    assert done.code == 0, done.err
    assert f"asked: {objective};" in done.err and done.err.count("evaluation  loss") == 2
    ours = regard.load(tmp_path / "run", "cpu")
    assert set(ours.model.heads) == heads
    folder = tmp_path / "run" / "model"
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    theirs, told = transformers.AutoModelForPreTraining.from_pretrained(folder, output_loading_info=True)
    assert type(theirs).__name__ == architecture
    assert not any(told[keys] for keys in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    reads = transformers.AutoTokenizer.from_pretrained(folder)
    for given in (["the film is good ."], ["So good, thé film", "a dull film"]):
        [(ids, types)] = ours.rows([tuple(given)])
        told = reads(*given)
        assert told["input_ids"] == ids
        assert told.get("token_type_ids", types if model in ("distilbert-base", "roberta-base") else None) == types
    assert reads.model_max_length == ours.longest


@pytest.mark.parametrize(
    "model, objective, architecture",
    [("bert-tiny", "masked", "BertForMaskedLM"), ("bert-tiny", "next-sentence", "BertForNextSentencePrediction"),
     ("bert-tiny", "masked+order", "BertForPreTraining"), ("albert-base", "masked", "AlbertForMaskedLM"),
     ("electra-small", "masked", "ElectraForMaskedLM")],
)  # fmt: skip
def test_other_objectives_that_make_sense(call, text, tokenizer, tmp_path, model, objective, architecture):
    more = ["--objective", objective, "--tokenizer", tokenizer, "--whole-words"]
    assert call(*pretraining(model, text, tmp_path / "run", *more)).code == 0
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["architectures"] == [architecture]


def test_electra_in_two_stages(call, text, tokenizer, tmp_path):
    """It learns hidden words, and then, from there, to tell what a model as it was has put in."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert call(*pretraining("electra-small", text, first, "--objective", "masked", "--tokenizer", tokenizer)).code == 0
    done = call(*pretraining(first, text, second, "--objective", "replaced", "--filled-by", first))
    assert done.code == 0 and not (second / "generator").exists(), done.err
    assert set(regard.load(second, "cpu").model.heads) == {"replaced"}
    other = call(*pretraining("electra-small", text, tmp_path / "other", "--filled-by", first))
    assert other.code == 1 and "another vocabulary" in other.err
    wrong = call(*pretraining(first, text, tmp_path / "wrong", "--objective", "replaced", "--filled-by", second))
    assert wrong.code == 1 and "cannot fill hidden words" in wrong.err


@pytest.mark.parametrize(
    "model, objective, told",
    [("bert-tiny", "maskd", "did you mean 'masked'?"), ("bert-tiny", "masked+masked", "cannot be asked together"),
     ("bert-tiny", "next-sentence+order", "cannot be asked together"),
     ("electra-small", "masked+replaced", "cannot be asked together"),
     ("bert-tiny", "replaced", "no bert has heads for replaced"),
     ("roberta-base", "masked+next-sentence", "no roberta has heads for masked and next"),
     ("albert-base", "order", "no albert has heads for next"), ("bert-tiny", "distilled", "--teacher FOLDER")],
)  # fmt: skip
def test_objectives_that_make_no_sense_are_refused(call, text, tmp_path, model, objective, told):
    done = call(*pretraining(model, text, tmp_path / "run", "--objective", objective))
    assert done.code == 2 and told in done.err and "Traceback" not in done.err
    assert not (tmp_path / "run").exists()


def test_what_fills_for_electra_can_fill(call, text, tokenizer, tmp_path):
    assert call(*pretraining("electra-small", text, tmp_path / "run", "--tokenizer", tokenizer)).code == 0
    filled = call("fill", "--model", tmp_path / "run" / "generator", "the [MASK] is good", "--best", 3)
    assert filled.code == 0 and filled.out.count("\n") == 3
    no = call("fill", "--model", tmp_path / "run", "the [MASK] is good")
    assert no.code == 1 and "no head for hidden words" in no.err
    generator = load_file(tmp_path / "run" / "generator" / "model.safetensors")
    shared = "electra.embeddings.word_embeddings.weight"
    assert torch.equal(generator[shared], weights(tmp_path / "run")[shared])


def test_a_student_begins_with_layers_of_its_teacher(call, text, tokenizer, tmp_path):
    two = ["--set", "stack.layers=2", "--tokenizer", tokenizer]
    assert call(*pretraining("bert-tiny", text, tmp_path / "teacher", "--objective", "masked", *two)).code == 0
    teacher = ["--teacher", tmp_path / "teacher"]
    still = ["--steps", 1, "--rate", "1e-30", "--weight-decay", 0]
    done = call(*pretraining("distilbert-base", text, tmp_path / "student", *teacher, *still))
    assert done.code == 0 and "asked: distilled;" in done.err
    student, taught = weights(tmp_path / "student"), weights(tmp_path / "teacher")
    name, theirs = "layer.0.attention.{}.weight", "bert.encoder.layer.{}.attention.self.query.weight"
    queries = student[f"distilbert.transformer.{name.format('q_lin')}"]
    assert any(torch.allclose(queries, taught[theirs.format(layer)]) for layer in (0, 1))
    wide = ["--set", "stack.block.width=32", "--set", "embedding.width=32"]
    other = call(*pretraining("distilbert-base", text, tmp_path / "wide", *teacher, *wide))
    assert other.code == 1 and "the student's width is 32 and its teacher's 16" in other.err
    assert call(*pretraining("distilbert-base", text, tmp_path / "wide", *teacher)).code == 0  # nothing was made yet
    alone = call(*pretraining("bert-tiny", text, tmp_path / "alone", *teacher))
    assert alone.code == 2 and "a student needs a teacher and a teacher a student" in alone.err


# Text


def test_the_form_of_the_text_makes_no_difference(call, text, tokenizer, tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text.read_bytes()))
    rows = [{"text": story} for story in stories()]
    forms = [text, tmp_path / "a.txt.gz", tmp_path / "a.txt.xz"]
    forms += [write_table(tmp_path / name, rows) for name in ("a.jsonl", "a.parquet")]
    halves = [write_table(tmp_path / "1.jsonl", rows[:15]), write_table(tmp_path / "2.parquet", rows[15:])]
    for number, form in enumerate([*forms, halves]):
        done = call(*pretraining("bert-tiny", form, tmp_path / str(number), "--tokenizer", tokenizer))
        assert done.code == 0 and "30 documents, 180 sentences" in done.err, done.err
        assert_same_weights(tmp_path / str(number), tmp_path / "0")


def test_runs_share_the_encoded_text_and_its_vocabulary(call, text, tmp_path):
    shared = ["--corpus", tmp_path / "encoded"]
    for model in ("bert-tiny", "electra-small"):
        done = call(*pretraining(model, text, tmp_path / model, *shared))
        assert done.code == 0 and not (tmp_path / model / "corpus").exists(), done.err
    pieces = [(tmp_path / model / "model" / "tokenizer.json").read_bytes() for model in ("bert-tiny", "electra-small")]
    assert pieces[0] == pieces[1]
    other = call(*pretraining("bert-tiny", text, tmp_path / "other", *shared, "--vocab", 60))
    assert other.code == 1 and "encoded holds other text" in other.err and "the tokenizer have changed" in other.err


def test_rows_are_short_first_and_long_at_the_end(call, text, tokenizer, tmp_path):
    more = ["--tokenizer", tokenizer, "--later-longest", 64, "--later", 0.5]
    done = call(*pretraining("bert-tiny", text, tmp_path / "run", *more))
    assert done.code == 0 and "rows of at most 32 tokens" in done.err and "rows of at most 64 tokens" in done.err


@pytest.mark.parametrize(
    "name, content, told",
    [("a.txt", "\n \n", "all lines are blank"), ("a.txt", "one. two. three.\n", "two documents or more"),
     ("a.jsonl", '{"text": "a film"}\n' * 6 + '{"text": \n', "a.jsonl, line 7 is not valid JSON"),
     ("a.jsonl", '{"text": "a film"}\n{"txt": "a"}\n', "a.jsonl, line 2 has no column 'text'"),
     ("a.jsonl", '{"id": 3}\n', "no column looks like text; there are: id"),
     ("a.parquet", "not so", "a.parquet cannot be read as Parquet"), ("a.gz", "not so", "a.gz is damaged"),
     ("a.txt", b"caf\xe9\n", "a.txt, line 1, byte 4"), ("a.txt", None, "a.txt: there is no such file")],
)  # fmt: skip
def test_text_that_will_not_do_is_named(call, tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = call(*pretraining("bert-tiny", tmp_path / name, tmp_path / "run", "--vocab", 60))
    assert done.code == 1 and told in done.err and "Traceback" not in done.err, done.err


# Going on


def test_a_folder_goes_on_with_its_heads(call, text, tokenizer, tmp_path):
    assert call(*pretraining("bert-tiny", text, tmp_path / "begun", "--tokenizer", tokenizer)).code == 0
    still = ["--steps", 1, "--rate", "1e-30", "--weight-decay", 0]
    done = call(*pretraining(tmp_path / "begun", text, tmp_path / "more", *still))
    assert done.code == 0 and "new: nothing" in done.err
    before, after = weights(tmp_path / "begun"), weights(tmp_path / "more")
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-7) for name in before)
    masked = call(*pretraining(tokenizer, text, tmp_path / "pairs"))  # which has no head for the next sentence
    assert masked.code == 0 and "cls.seq_relationship.weight" in masked.err
    changed = call(*pretraining(tokenizer, text, tmp_path / "cut", "--set", "stack.layers=2"))
    assert changed.code == 2 and "only dropout can be changed" in changed.err


def test_a_finished_run_says_so_and_changed_text_is_refused(call, tokenizer, tmp_path):
    text = write_stories(tmp_path / "a.txt")
    command = pretraining("bert-tiny", text, tmp_path / "run", "--tokenizer", tokenizer)
    assert call(*command).code == 0
    assert "is finished, at step 4" in call(*command).err
    assert "settings.share=0.15, now 0.2" in call(*command, "--share", 0.2).err
    write_stories(text, seed=5)
    encoded = call(*command)
    assert encoded.code == 1 and "corpus holds other text" in encoded.err and "Remove it" in encoded.err
    shutil.rmtree(tmp_path / "run" / "corpus")
    refused = call(*command)
    assert refused.code == 1 and "other data" in refused.err
    assert call(*command, "--allow-changed-data").code == 0


def test_a_run_that_made_nothing_may_begin_otherwise(call, text, tmp_path):
    small = call(*pretraining("roberta-base", text, tmp_path / "run", "--vocab", 80))
    assert small.code == 1 and "need 261" in small.err
    assert call(*pretraining("roberta-base", text, tmp_path / "run", "--vocab", 265)).code == 0


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_to_the_same_weights(call, text, tokenizer, tmp_path, number, code):
    def command(name):
        more = ["--tokenizer", tokenizer, "--steps", 100, "--save-every", 3]
        return pretraining("electra-small", text, tmp_path / name, *more)

    def told():
        metrics = tmp_path / "stopped" / "metrics.jsonl"
        return metrics.read_text().count('"tokens"') if metrics.exists() else 0

    with spawn(*command("stopped")) as process:
        while told() < 5:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=280)
    assert process.returncode == code and b"Traceback" not in err
    assert not (tmp_path / "stopped" / "model").exists()
    for name in ("stopped", "whole"):
        done = call(*command(name))
        assert done.code == 0 and ("Resuming after step" in done.err) == (name == "stopped")
    assert_same_weights(tmp_path / "stopped", tmp_path / "whole")


def test_two_ranks_pretrain_as_one_process_with_twice_the_micro_batches(call, text, tmp_path):
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    command = [*ranks, *map(str, pretraining("bert-tiny", text, tmp_path / "two", "--corpus", tmp_path / "text"))]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("30 documents") == 1
    more = ["--corpus", tmp_path / "text", "--accumulate", 2]
    assert call(*pretraining("bert-tiny", text, tmp_path / "one", *more)).code == 0
    two, one = weights(tmp_path / "two"), weights(tmp_path / "one")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-5, atol=1e-5)


# What is given


@pytest.mark.parametrize(
    "options",
    ["--longest 600", "--later-longest 600", "--share 0", "--share 1", "--steps 0", "--budget 0",
     "--accumulate 0", "--warmup 2", "--later -1", "--rate 11", "--vocab 3", "--set stack.layerz=2", "--column text"],
)  # fmt: skip
def test_a_bad_option_is_refused_and_named(call, text, tmp_path, options):
    done = call(*pretraining("bert-tiny", text, tmp_path / "run", *options.split()))
    assert done.code == 2 and "Traceback" not in done.err, done.err
    assert options.split()[1].partition("=")[0].rpartition(".")[2] in done.err
    assert not any((tmp_path / "run").glob("*/"))  # and another command may have the folder
    if options == "--vocab 3":
        assert call(*pretraining("bert-tiny", text, tmp_path / "run", "--vocab", 60)).code == 0


def test_a_model_or_file_that_is_not_is_named(call, text, tmp_path):
    missing = call(*pretraining(tmp_path / "nowhere", text, tmp_path / "run"))
    assert missing.code == 1 and "there is no such folder" in missing.err
    misspelt = call(*pretraining("bert/tinny", text, tmp_path / "run"))
    assert misspelt.code == 1 and "did you mean 'bert-tiny'?" in misspelt.err
    dev = call(*pretraining("bert-tiny", text, tmp_path / "run", "--dev", tmp_path / "dev.txt"))
    assert dev.code == 1 and "dev.txt: there is no such file" in dev.err and not (tmp_path / "run").exists()
    with pytest.raises(regard.Problem, match="nothing to pretrain on"):
        regard.pretrain("bert-tiny", [])
