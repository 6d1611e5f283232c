"""Pictures on the command line: trained, resumed, taught, fine-tuned, labelled, scored; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import regard
from regard.checkpoints.files import load_tensors
from regard.cli import app
from regard.errors import Problem, UsageProblem

torch.set_num_threads(1)

SMALL = (
    "embedding.width=16", "stack.block.width=16", "stack.block.inner=16", "stack.block.attention.heads=2",
    "stack.layers=1", "embedding.picture=8",
)  # fmt: skip
TINY = {"width": 16, "picture": 8}
FAST = {"epochs": 6, "batch": 12, "rate": 3e-3, "evaluations": 2}


def write_pictures(folder: Path, count: int, seed: int, classes=("red", "green", "blue")) -> Path:
    random = np.random.default_rng(seed)
    for channel, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 100, (8, 8, 3)).astype(np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder / "train", 16, 0)
    write_pictures(folder / "dev", 4, 1)
    return folder


@pytest.fixture(scope="module")
def teacher(data):
    changes = tuple(f"{name}={value}" for name, value in TINY.items())
    out = data / "teacher"
    regard.train("image", model="convolutional-small", set=changes, train=[data / "train"], out=out, **FAST)
    return out


def learn(data: Path, out: Path, model: str = "vit-cifar", **settings):
    told = {"set": SMALL, "train": [str(data / "train")], "dev": str(data / "dev"), "out": out, **FAST}
    return regard.train("image", model=model, **(told | settings))


@pytest.fixture(scope="module")
def trained(data):
    learn(data, data / "vit")
    return data / "vit"


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_folder_is_learned_and_scored(data, trained):
    found = regard.evaluate(trained, [data / "dev"])
    assert found.scores[0].metric == "accuracy" and found.scores[0].value > 90
    assert json.loads((trained / "model/config.json").read_text())["id2label"] == {
        "0": "blue",
        "1": "green",
        "2": "red",
    }
    assert "3 kinds" in found.lines()[0]


def test_the_reference_library_reads_what_was_learned(data, trained, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    path = data / "dev/red/0.png"
    model = transformers.ViTForImageClassification.from_pretrained(trained / "model").eval()
    given = transformers.ViTImageProcessorPil.from_pretrained(trained / "model")(Image.open(path), return_tensors="pt")
    with torch.no_grad():
        shares = model(**given).logits.softmax(-1)[0]
    ours = regard.load(trained)(path)
    assert ours.label == model.config.id2label[int(shares.argmax())]
    assert ours.probability == pytest.approx(float(shares.max()), abs=1e-5)


def test_the_command_labels_pictures_and_folders(data, trained):
    done = run("classify", data / "dev/red/0.png", data / "dev/blue", "--model", trained)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.exit_code == 0 and len(lines) == 5
    assert lines[0][0] == "red" and lines[0][2] == str(data / "dev/red/0.png") and lines[1][0] == "blue"
    told = json.loads(run("classify", data / "dev/red/0.png", "--model", trained, "--json").stdout)
    assert set(told) == {"label", "probability", "probabilities", "picture"}


def test_a_model_gives_vectors_and_takes_arrays(data, trained):
    model = regard.load(trained)
    assert model.embed([data / "dev/red/0.png", data / "dev/red/1.png"]).shape == (2, 16)
    assert model(np.full((5, 9, 3), 200, np.uint8)).label in ("red", "green", "blue")
    with pytest.raises(UsageProblem, match="give bytes"):
        model(np.zeros((4, 4)))


def test_a_run_goes_on_where_it_stopped(data, tmp_path):
    whole = learn(data, tmp_path / "whole")
    constant = {"schedule": "constant", "warmup": 0.0, "best": "last accuracy"}  # evaluations are at other steps
    learn(data, tmp_path / "part", epochs=3, **constant)
    learn(data, tmp_path / "part", epochs=6, **constant)
    learn(data, tmp_path / "once", epochs=6, **constant)
    parts = [load_tensors(tmp_path / name / "model/model.safetensors") for name in ("part", "once", "whole")]
    assert all(torch.equal(parts[0][name], parts[1][name]) for name in parts[0])
    assert not all(torch.equal(parts[0][name], parts[2][name]) for name in parts[0])  # another schedule
    assert whole.task.labels.names == ("blue", "green", "red")


def test_changed_pictures_are_told(data, tmp_path):
    copy = write_pictures(tmp_path / "train", 4, 3)
    settings = {"train": [str(copy)], "schedule": "constant", "warmup": 0.0}
    learn(data, tmp_path / "run", epochs=2, **settings)
    (copy / "red/0.png").unlink()
    with pytest.raises(Problem, match="other data"):
        learn(data, tmp_path / "run", epochs=4, **settings)


@pytest.mark.parametrize("model, distillation", [("deit-cifar", "hard"), ("vit-cifar", "soft")])
def test_a_student_learns_from_a_teacher(data, teacher, tmp_path, model, distillation):
    found = learn(data, tmp_path / "run", model, teacher=str(teacher), distillation=distillation)
    assert regard.evaluate(found, [data / "dev"]).scores[0].value > 60
    assert ("taught" in found.model.heads) == (model == "deit-cifar")
    told = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert any("taught_loss" in line for line in told)
    again = regard.load(tmp_path / "run")
    assert again(data / "dev/red/0.png") == found(data / "dev/red/0.png")


def test_a_teacher_of_other_labels_is_refused(teacher, tmp_path):
    write_pictures(tmp_path / "train", 4, 0, ("red", "green", "mauve"))
    with pytest.raises(Problem, match=r"other labels than these pictures have .one lacks blue, mauve"):
        learn(tmp_path, tmp_path / "run", teacher=str(teacher), dev="")


def test_a_model_is_finetuned_for_other_labels(data, trained, tmp_path):
    write_pictures(tmp_path / "train", 8, 0, ("warm", "cold"))
    done = run(
        "finetune", trained, "image", "--train", tmp_path / "train", "--dev", tmp_path / "train",
        "--out", tmp_path / "run", "--epochs", 8, "--batch", 4, "--rate", 3e-3,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "labels: cold 8, warm 8; majority share 50.0%" in done.output
    alone = ["finetune", trained, "image", "--train", tmp_path / "train", "--out", tmp_path / "alone", "--epochs", 1]
    held_out = run(*alone)
    assert held_out.exit_code == 0 and "no dev pictures: one in 10 of each class is held out" in held_out.output
    found = regard.load(tmp_path / "run")
    assert found.task.labels.names == ("cold", "warm")
    assert regard.evaluate(found, [tmp_path / "train"]).scores[0].value > 90


def test_a_picture_is_looked_at(data, trained, tmp_path):
    done = run("look", data / "dev/red/0.png", "--model", trained, "-o", tmp_path / "look.html")
    assert done.exit_code == 0 and "view=picture" in (tmp_path / "look.html").read_text()


@pytest.mark.parametrize("settings, kind, told", [
    ({"train": []}, UsageProblem, "name the pictures"),
    ({"model": "vit-cifarr"}, UsageProblem, "did you mean 'vit-cifar'"),
    ({"set": ("stack.layer=1",)}, UsageProblem, "did you mean 'layers'"),
    ({"smoothing": 1.0}, UsageProblem, "smoothing=1.0"),
    ({"augment": {"flipp": True}}, UsageProblem, "did you mean 'flip'"),
    ({"dev": "none"}, Problem, "no such file or folder"),
    ({"teacher": "none/at/all"}, Problem, "none/at/all"),
])  # fmt: skip
def test_what_cannot_be_trained_is_told(data, tmp_path, settings, kind, told):
    with pytest.raises(kind, match=told):
        learn(data, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_what_is_for_texts_is_refused(data, trained, tmp_path):
    with pytest.raises(UsageProblem, match="tokenizer=x: this is for texts"):
        regard.finetune(trained, "image", tokenizer="x", train=data / "train", dev=data / "dev", out=tmp_path / "run")
    with pytest.raises(Problem, match="does not read text"):
        regard.embed(trained, ["a text"])
    with pytest.raises(Problem, match=r"there is no such folder|reads no pictures"):
        regard.finetune("no/model", "image", train=data / "train", dev=data / "dev", out=tmp_path / "run")


def test_pictures_are_not_served(trained):
    pytest.importorskip("fastapi", reason="the server is not installed")
    from regard.server.shelf import Named, Shelf

    with pytest.raises(Problem, match="reads pictures, and is not served"):
        Shelf([Named("one", regard.load(trained))])
