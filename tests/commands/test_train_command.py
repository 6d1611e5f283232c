"""`regard train translate`: from files to a model; again, it goes on; and what it refuses."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import DEV, ENVIRONMENT, TEST, TRAIN, files_of_at_most, make_corpus, settings, spawn, training, write

import regard
from regard.commands.settings import TRANSLATION


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def assert_equal(one: dict, other: dict) -> None:
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """A short run, made by the function."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, call_function(corpus, folder)


def call_function(corpus, out):
    """What the options of `training` say, said to the function."""
    often, rate = {"evaluate_every": 2, "save_every": 2}, {"rate": 0.01, "warmup": 2}
    return regard.train(
        "translate", train=[str(corpus / name) for name in TRAIN], dev=[str(corpus / name) for name in DEV],
        model="transformer-tiny", set=tuple(settings("transformer-tiny")), out=out,
        tokenizer="words", vocab=60, budget=256, training={"steps": 4, "report_every": 1, **often, "optimizer": rate},
    )  # fmt: skip


# The run folder


def test_a_run_is_a_folder_with_all_that_belongs_to_it(finished):
    folder, translator = finished
    names = {path.name for path in folder.iterdir()}
    own = {"run.json", "metrics.jsonl", "checkpoints", "finished.json", "model", "lock", "lock-holder.json"}
    assert names == own | {"tokenizer.json", "tokenizer.json.sha256"}
    files = {path.name for path in (folder / "model").iterdir()}
    assert files == {"config.json", "model.safetensors", "tokenizer.json", "manifest.json", "README.md"}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [1, 2, 2, 3, 4, 4]
    assert "4 (steps)" in (folder / "model" / "README.md").read_text()
    assert not translator.model.training


def test_the_command_is_the_function_and_a_finished_run_says_so(call, corpus, finished):
    folder, _ = finished
    before = weights(folder)
    again = call(*training(corpus, folder))
    assert again.code == 0 and "is finished, at step 4" in again.err
    assert_equal(weights(folder), before)


def test_the_same_command_elsewhere_gives_the_same_model(call, corpus, finished, tmp_path):
    assert call(*training(corpus, tmp_path / "twin")).code == 0
    assert_equal(weights(tmp_path / "twin"), weights(finished[0]))


def test_without_dev_files_a_tenth_of_the_pairs_is_held_out(call, corpus, tmp_path):
    files = training(corpus, tmp_path / "run")
    at = files.index("--dev")
    command = [*files[:at], *files[at + 3 :]]
    done = call(*command)
    assert done.code == 0, done.err
    assert "no dev files: " in done.err and "are held out to choose weights by" in done.err
    assert ", 0 of them in the training text" in done.err
    assert "(held out): " in (tmp_path / "run" / "model" / "README.md").read_text()
    assert "is finished" in call(*command).err


def test_a_run_can_be_given_more_steps(call, corpus, tmp_path):
    for steps in (4, 6):
        assert call(*training(corpus, tmp_path / "run", "--steps", steps)).code == 0
    assert call(*training(corpus, tmp_path / "whole", "--steps", 6)).code == 0
    assert_equal(weights(tmp_path / "run"), weights(tmp_path / "whole"))


@pytest.mark.parametrize(
    "changed, told",
    [("--seed 3", "settings.training.seed=0, now 3"),
     ("--vocab 50", "settings.vocab=60, now 50"),
     ("--set tied=false --rate 0.02", "model.tied=True, now False; settings.training.optimizer.rate=0.01, now 0.02")],
)  # fmt: skip
def test_another_run_is_refused_with_the_differences(call, corpus, finished, changed, told):
    folder, _ = finished
    before = (folder / "run.json").read_bytes()
    done = call(*training(corpus, folder, *changed.split()))
    assert done.code == 1 and "holds another run" in done.err and told in done.err
    assert (folder / "run.json").read_bytes() == before


def test_a_model_of_another_family_is_another_run(call, corpus, finished):
    done = call(*training(corpus, finished[0], model="rnn-dot"))
    assert done.code == 1 and "model.attention=None, now {" in done.err


def test_changed_text_is_refused_unless_allowed(call, corpus, tmp_path):
    own = make_corpus(tmp_path)
    assert call(*training(own, tmp_path / "run")).code == 0
    with open(own / "dev.en", "a") as source, open(own / "dev.de", "a") as target:
        source.write("a man .\n"), target.write("ein mann .\n")
    refused = call(*training(own, tmp_path / "run", "--steps", 6))
    assert refused.code == 1 and "other data" in refused.err
    assert call(*training(own, tmp_path / "run", "--steps", 6, "--allow-changed-data")).code == 0


@pytest.mark.parametrize("place", ["folder", "folder/file", "damaged"])
def test_a_place_that_holds_something_else_is_left_alone(call, corpus, tmp_path, place):
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "file", ["mine"])
    write((tmp_path / "damaged").mkdir() or tmp_path / "damaged" / "run.json", ['{"settings": 3'])
    before = sorted(path for path in tmp_path.rglob("*"))
    done = call(*training(corpus, tmp_path / place))
    assert done.code == 1 and str(tmp_path / place) in done.err and "Choose another folder" in done.err
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("room, place", [(60_000, "initial"), (120_000, "step-00000002")])
def test_a_full_disk_stops_it_and_with_room_it_goes_on(call, corpus, finished, tmp_path, room, place):
    """There is no room for the weights as they begin; or for these, and not for what the optimizer keeps."""
    with files_of_at_most(room):
        full = call(*training(corpus, tmp_path / "run"))
    assert full.code == 1 and f"{place} could not be written" in full.err and "Free some space" in full.err
    assert call(*training(corpus, tmp_path / "run")).code == 0
    assert_equal(weights(tmp_path / "run"), weights(finished[0]))


# Being stopped


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_to_the_same_weights(call, corpus, tmp_path, number, code):
    endless = training(corpus, tmp_path / "stopped", "--steps", 10**6, "--evaluate-every", 0, "--save-every", 3)
    with spawn(*endless) as process:
        wait_for_step(process, tmp_path / "stopped", 7)
        process.send_signal(number)
        _, err = process.communicate(timeout=280)
    assert process.returncode == code and b"Traceback" not in err
    assert not (tmp_path / "stopped" / "model").exists()
    unfinished = call("translate", "--model", tmp_path / "stopped", stdin=b"a man\n")
    assert unfinished.code == 0 and "has not finished: this is its last checkpoint, step" in unfinished.err
    assert unfinished.out.count("\n") == 1
    steps = told_step(tmp_path / "stopped") + 5
    for name in ("stopped", "whole"):
        short = ["--steps", steps, "--evaluate-every", 0, "--save-every", 3]
        assert call(*training(corpus, tmp_path / name, *short)).code == 0
    assert_equal(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))


def wait_for_step(process: subprocess.Popen, folder: Path, step: int) -> None:
    while told_step(folder) < step:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def told_step(folder: Path) -> int:
    metrics = folder / "metrics.jsonl"
    return metrics.read_text().count('"tokens"') if metrics.exists() else 0


# Ranks


def test_two_ranks_train_as_one_process_with_twice_the_micro_batches(call, corpus, tmp_path):
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    command = [*ranks, *training(corpus, tmp_path / "two")]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("200 pairs") == 1 and [path.name for path in tmp_path.iterdir()] == ["two"]
    assert call(*training(corpus, tmp_path / "one", "--accumulate", 2)).code == 0
    two, one = weights(tmp_path / "two"), weights(tmp_path / "one")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-5, atol=1e-5)


# What is given


def test_test_files_are_scored_at_the_end(call, corpus, finished):
    test = [corpus / name for name in TEST]
    done = call(*training(corpus, finished[0], "--test", *test))
    scored = call("evaluate", "--model", finished[0], *test)
    assert done.code == 0 and done.out.endswith(scored.out) and scored.out.startswith("BLEU ")


def test_separate_vocabularies_and_recurrent_models_and_compressed_text(call, corpus, tmp_path):
    for name in TRAIN:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((corpus / name).read_bytes()))
    train = [tmp_path / f"{name}.gz" for name in TRAIN]
    command = training(corpus, tmp_path / "run", "--no-shared", "--lowercase", train=train, model="rnn-location")
    assert call(*command).code == 0
    names = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert {"source.tokenizer.json", "target.tokenizer.json"} <= names and "tokenizer.json" not in names
    loaded = regard.load(tmp_path / "run")
    assert loaded.model.config.target_vocab == loaded.target.size != loaded.source.size
    assert call("translate", "--model", tmp_path / "run", stdin=b"a man sees a dog .\n" * 2).out.count("\n") == 2


def test_bf16_is_of_the_arithmetic_alone(call, corpus, finished, tmp_path):
    assert call(*training(corpus, tmp_path / "run", "--precision", "bf16")).code == 0
    assert {tensor.dtype for tensor in weights(tmp_path / "run").values()} == {torch.float32}
    assert {p.dtype for p in regard.load(tmp_path / "run", "cpu").model.parameters()} == {torch.float32}
    table = "embed.tokens.weight"
    assert not torch.equal(weights(tmp_path / "run")[table], weights(finished[0])[table])


def test_pairs_longer_than_the_table_of_positions_are_left_out(call, corpus, tmp_path):
    learned = ["--set", "embedding.positions=learned", "--set", "embedding.longest=8"]
    done = call(*training(corpus, tmp_path / "run", *learned))
    assert done.code == 0 and "of over 7 pieces" in done.err
    long = call("translate", "--model", tmp_path / "run", stdin=b"a man and a man and a dog and a man .\na man\n")
    assert long.code == 0 and long.out.count("\n") == 2 and "cut to the first 7 pieces: 1" in long.err


@pytest.mark.parametrize(
    "spoil, told",
    [({"train.de": b"ein mann .\n"}, ["train.en has 200 lines", "train.de has 1"]),
     ({"train.en": b"a man\na d\xf6g\n", "train.de": b"ein mann\nein hund\n"}, ["train.en, line 2, byte 4", "0xf6"]),
     ({"dev.en": b""}, ["dev.en has no text"]),
     ({"train.de": b"\n" * 200}, ["train.de has no text: 200 lines, all blank"]),
     ({"train.en": b"a man\n\n", "train.de": b"\nein mann\n"}, ["of 2 pairs none is left: 2 have an empty side"]),
     ({"train.en": b"a\xe2\x80\xa8man\n", "train.de": b"ein\nmann\n"}, ["train.en, line 1 holds U+2028"]),
     ({"dev.de": None}, ["dev.de cannot be read (No such file"])],
    ids=["unequal", "not UTF-8", "empty", "blank", "one-sided", "U+2028", "missing"],
)  # fmt: skip
def test_text_that_will_not_do_is_named(call, tmp_path, spoil, told):
    make_corpus(tmp_path)
    for name, content in spoil.items():
        (tmp_path / name).write_bytes(content) if content is not None else (tmp_path / name).unlink()
    done = call(*training(tmp_path, tmp_path / "run"))
    assert done.code == 1 and "Traceback" not in done.err
    assert all(words in done.err for words in told), done.err


def test_breaks_inside_lines_do_not_put_text_out_of_step(call, tmp_path):
    make_corpus(tmp_path)
    for name in TRAIN:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace(" ", "\u2028", 1).replace(" ", "\x85", 1).replace("\n", "\r\n"))
    done = call(*training(tmp_path, tmp_path / "run"))
    assert done.code == 0 and "200 pairs" in done.err


@pytest.mark.parametrize(
    "options",
    ["--set encoder.layerz=3", "--set encoder.layers=many", "--set encoder", "--set encoder.layers=0",
     "--set embedding.width=33", "--model transformer-tinny", "--tokenizer bpee", "--schedule cosines",
     "--steps 0", "--warmup 9", "--rate 11", "--rate -1", "--smoothing 1", "--budget 0", "--longest 0", "--vocab 3",
     "--accumulate 0", "--patience -1"],
)  # fmt: skip
def test_a_bad_option_is_refused_and_named(call, corpus, tmp_path, options):
    done = call(*training(corpus, tmp_path / "run", *options.split()))
    assert done.code == 2 and "Traceback" not in done.err
    named = options.split()[-1].partition("=")[0].rpartition(".")[2]
    assert named in done.err, done.err


def test_a_config_that_cannot_be_does_not_take_the_folder(call, corpus, tmp_path):
    assert call(*training(corpus, tmp_path / "run", "--set", "embedding.width=33")).code == 2
    assert not (tmp_path / "run").exists()


def test_a_misspelt_name_is_answered_with_the_nearest(call, corpus, tmp_path):
    assert "did you mean 'layers'?" in call(*training(corpus, tmp_path, "--set", "encoder.layerz=3")).err
    assert "did you mean 'transformer-tiny'?" in call(*training(corpus, tmp_path, "--model", "transformer-tinny")).err
    assert "--steps" in call(*training(corpus, tmp_path, "--stepz", 3)).err


def test_a_function_called_wrongly_says_so(tmp_path):
    with pytest.raises(regard.Problem, match="did you mean 'translate'"):
        regard.train("transalte", out=tmp_path)
    with pytest.raises(regard.Problem, match="did you mean 'vocab'"):
        regard.train("translate", out=tmp_path, vocap=3)
    with pytest.raises(regard.Problem, match="a source file and a target file, found 0"):
        regard.train("translate", out=tmp_path)
    assert not any(tmp_path.iterdir())


def test_the_options_default_to_the_settings(call):
    help_text = call("train", "translate", "--help").out
    for value in (TRANSLATION.vocab, TRANSLATION.budget, TRANSLATION.training.steps):
        assert f"[default: {value}]" in help_text.replace("\n", " ")
