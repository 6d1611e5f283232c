"""Sound from the command line: pretrained, fine-tuned, transcribed, evaluated, and resumed where it stopped."""

from __future__ import annotations

import json
import wave
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.commands.finetune import finetune
from regard.commands.listeners import listener_of
from regard.commands.load import load
from regard.commands.pretrain import pretrain
from regard.commands.settings import FinetuningSettings
from regard.commands.transcribe import transcribe
from regard.commands.transcribing_run import TranscribingRun
from regard.data.reading import Reading
from regard.decoding.ctc import PrefixBeam
from regard.errors import Problem, UsageProblem

torch.set_num_threads(1)
RATE = 8000
PITCH = {"a": 300, "b": 700, "c": 1500}
TINY = (
    "stack.layers=1", "stack.block.width=32", "stack.block.inner=32", "stack.block.attention.heads=2",
    "stack.block.dropout=0", "stack.block.inner_dropout=0", "dropout=0", "spans.share=0.1", "around=4",
    "waves.widths=[32,32,32]", "waves.kernels=[16,8,4]", "waves.strides=[8,5,4]", "codebook.negatives=5",
)  # fmt: skip


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Recordings of one to three tones, each of which is a letter."""
    folder, draw = tmp_path_factory.mktemp("sounds"), np.random.default_rng(0)
    rows = []
    for number in range(24):
        text = "".join(draw.choice([*PITCH], draw.integers(1, 4)))
        parts = [np.sin(2 * np.pi * PITCH[letter] * np.arange(1600) / RATE) for letter in text]
        gaps = np.zeros(600)
        samples = np.concatenate([part for tone in parts for part in (tone, gaps)])
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes((8000 * samples + 30 * draw.standard_normal(len(samples))).astype("<i2").tobytes())
        rows.append(f"{number}.wav,{text}\n")
    (folder / "train.csv").write_text("path,text\n" + "".join(rows[:18]))
    (folder / "dev.csv").write_text("path,text\n" + "".join(rows[18:]))
    return folder


@pytest.fixture(scope="module")
def pretrained(sounds):
    out = sounds / "pretrained"
    pretrain(
        "wav2vec2-tiny", [sounds / "train.csv"], dev=[sounds / "dev.csv"], objective="contrast", out=out, set=TINY,
        steps=6, budget=200, longest=60, rate=1e-3, evaluate_every=3, save_every=3, report_every=3,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def written(sounds, pretrained):
    out = sounds / "written"
    finetune(
        pretrained, "transcribe", train=sounds / "train.csv", dev=sounds / "dev.csv", out=out, epochs=90.0, batch=9,
        rate=6e-3, seed=1, frozen=False, unfreeze=0,
    )  # fmt: skip
    return out


def test_pretraining_leaves_a_folder_that_others_read(pretrained):
    config = json.loads((pretrained / "model" / "config.json").read_text())
    assert config["architectures"] == ["Wav2Vec2ForPreTraining"] and config["mask_time_length"] == 5
    assert json.loads((pretrained / "model" / "preprocessor_config.json").read_text())["sampling_rate"] == RATE
    told = [json.loads(line) for line in (pretrained / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in told if "evaluation" in line][-1]["evaluation"]
    assert 0 < last["perplexity"] <= 64 and last["contrast_loss"] > 0
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    _, info = transformers.Wav2Vec2ForPreTraining.from_pretrained(pretrained / "model", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(sounds, pretrained, tmp_path):
    how = {"dev": [sounds / "dev.csv"], "objective": "contrast", "set": TINY, "budget": 200, "longest": 60,
           "rate": 1e-3, "evaluate_every": 3, "save_every": 3, "report_every": 3}  # fmt: skip
    out = tmp_path / "again"
    pretrain("wav2vec2-tiny", [sounds / "train.csv"], out=out, steps=6, **how)
    for name in ("model", "finished.json"):
        place = out / name
        place.unlink() if place.is_file() else [file.unlink() for file in place.iterdir()] and place.rmdir()
    newest = max((out / "checkpoints").iterdir(), key=lambda place: place.name)
    for file in sorted(newest.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    if newest.is_dir():
        newest.rmdir()
    pretrain("wav2vec2-tiny", [sounds / "train.csv"], out=out, steps=6, **how)
    one, other = (load(place / "model", "cpu").model.state_dict() for place in (pretrained, out))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_learns_to_write(written, sounds):
    found = regard.load(written, "cpu")
    data = found.task.read(sounds / "train.csv", Reading())
    words, letters = found.evaluate(data)
    assert letters.value < 80, (words, letters)


@pytest.mark.parametrize("frozen", [None, False])
def test_a_model_that_has_learned_keeps_its_convolutions(sounds, pretrained, tmp_path, capsys, frozen):
    found = finetune(
        pretrained, "transcribe", train=sounds / "train.csv", dev=sounds / "dev.csv", out=tmp_path, epochs=10.0,
        batch=9, rate=1e-3, varied=0.5, frozen=frozen, best="last character error rate",
    )  # fmt: skip
    begun, ended = load(pretrained / "model", "cpu").model.state_dict(), found.model.state_dict()
    changed = {name for name in begun.keys() & ended.keys() if not begun[name].equal(ended[name])}
    assert {"encoder.widen.weight", "encoder.stack.blocks.0.feed.up.weight"} <= changed
    assert any(name.startswith("encoder.waves.") for name in changed) == (frozen is False)
    told = capsys.readouterr().err
    assert ("the convolutions stay as they are" in told) == (frozen is None)
    assert "the head learns first, and one more part below it every 2 steps" in told  # a fifth of 20, for two parts


def test_what_is_heard_and_left_out_is_said_before_training(sounds, pretrained, tmp_path, capsys):
    rows = (sounds / "train.csv").read_text().splitlines()
    table = sounds / "odd.csv"
    table.write_text("\n".join([*rows, "absent.wav,a", f"0.wav,{'abc' * 200}", "1.wav,é"]))
    how = {"out": tmp_path / "run", "epochs": 1.0, "batch": 9}
    with pytest.raises(Problem, match=r"odd\.csv, line 20: there is no file .*absent\.wav.*--skip-bad"):
        finetune(pretrained, "transcribe", train=table, **how)
    finetune(pretrained, "transcribe", train=table, reading=Reading(skip_bad=1), **how)
    told = capsys.readouterr().err
    assert "left out: 1 whose file is missing" in told and f"10% of {table}, are held out" in told
    assert "characters: 4 and the space: a b c é" in told
    assert "recordings left out: too short for the transcript: more characters than frames" in told
    assert "duplicates: train" in told and told.index("characters:") < told.index(" steps of ")


def test_a_preset_learns_all_of_itself_at_once(sounds, tmp_path):
    told = FinetuningSettings(train=str(sounds / "train.csv"), dev=str(sounds / "dev.csv"))
    run = TranscribingRun(told, "wav2vec2-tiny", tmp_path)
    model = listener_of("wav2vec2-tiny", TINY)[0].model
    assert not run.keeps_convolutions and run.optimizer(model, 1000, 10).unfreeze == 0
    assert TranscribingRun(replace(told, frozen=True), "wav2vec2-tiny", tmp_path).keeps_convolutions
    with pytest.raises(UsageProblem, match="varied=2"):
        replace(told, varied=2)


def test_transcribing_from_the_command_line(call, written, sounds):
    files = [sounds / "0.wav", sounds / "1.wav"]
    done = call("transcribe", *files, "--model", written, "--device", "cpu")
    assert done.code == 0 and [line.split("\t")[0] for line in done.out.splitlines()] == [str(file) for file in files]
    done = call("transcribe", files[0], "--model", written, "--beam", 8, "--device", "cpu")
    assert done.code == 0 and len(done.out.splitlines()) == 1 and set(done.out.strip()) <= set("abc ")
    done = call("transcribe", files[0], "--model", written, "--json", "--device", "cpu")
    told = json.loads(done.out)
    assert told["file"] == str(files[0]) and told["seconds"] > 0.1 and isinstance(told["words"], list)


def test_evaluating_from_the_command_line(call, written, sounds):
    done = call("evaluate", sounds / "dev.csv", "--model", written, "--device", "cpu")
    assert done.code == 0 and "word error rate" in done.out and "character error rate" in done.out


def test_a_language_model_judges_words(written, sounds, tmp_path):
    (tmp_path / "text.txt").write_text("a b c\nabc ab\n" * 30)
    pretrain("bigram", [tmp_path / "text.txt"], out=tmp_path / "bigram", vocab=30)
    how = PrefixBeam(6, weight=2.0, bonus=0.0)
    [found] = transcribe(written, [sounds / "0.wav"], how, language_model=tmp_path / "bigram", device="cpu")
    assert set(found.text) <= set("abc ")
    with pytest.raises(Problem, match="does not tell what comes next"):
        next(transcribe(written, [sounds / "0.wav"], how, language_model=written, device="cpu"))


def test_what_cannot_be_is_told(call, written, pretrained, sounds, tmp_path):
    (tmp_path / "no.wav").write_bytes(b"RIFF\x00\x00\x00\x00WAVE")
    for words, said in (
        (["transcribe", tmp_path / "no.wav", "--model", written], "cut in its header"),
        (["transcribe", sounds / "0.wav", "--model", pretrained], "was not fine-tuned"),
        (["evaluate", sounds / "0.wav", "--model", written], "what is said in"),
    ):
        done = call(*words)
        assert done.code == 1 and said in done.err and "Traceback" not in done.err, done.err
    with pytest.raises(UsageProblem, match="cannot be asked 'masked'"):
        pretrain("wav2vec2-tiny", [sounds / "train.csv"], objective="masked", out=tmp_path / "a")
    with pytest.raises(UsageProblem, match="no use for a teacher"):
        pretrain("wav2vec2-tiny", [sounds / "train.csv"], teacher=written, out=tmp_path / "b")
    with pytest.raises(UsageProblem, match="only dropout and spans"):
        finetune(pretrained, "transcribe", train=sounds / "train.csv", dev=sounds / "dev.csv", set=("stack.layers=3",),
                 out=tmp_path / "c")  # fmt: skip
