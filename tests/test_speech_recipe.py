"""Every part of the recipe of spoken digits, on tones and a model that learns for a few steps."""

import json
import tarfile

import numpy as np
import pytest

from recipes import speech
from regard.data.recordings import DIGITS, Recording

SPEAKERS = ("jackson", "lucas", "theo")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Digits as tones of some pitch, by three speakers."""
    draw = np.random.default_rng(0)
    (tmp_path / "fsdd").mkdir()
    with tarfile.open(tmp_path / "fsdd" / "fsdd.tar.xz", "w:xz") as archive:
        for who in SPEAKERS:
            for digit in range(10):
                for number in range(8):
                    tone = np.sin(np.arange(2000) * (digit + 2) / 20) / 2 + 0.01 * draw.standard_normal(2000)
                    path = tmp_path / f"{digit}_{who}_{number}.wav"
                    path.write_bytes(speech.wave_of(tone))
                    archive.add(path, f"recordings/{path.name}")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setenv("REGARD_COMMIT", "none")
    return tmp_path


def recipe(folder, monkeypatch, *told):
    folders = ["--out", str(folder / "runs"), "--results", str(folder / "results")]
    monkeypatch.setattr("sys.argv", ["speech", *told, *folders, "--small", "--steps", "3"])
    speech.main()


def test_as_many_labelled_recordings_of_each_digit():
    every = [Recording(f"{d}_a_{n}.wav", b"", DIGITS[d]) for d in range(10) for n in range(12)]
    some = speech.drawn(every, 30, 1)
    assert sorted(one.text for one in some) == sorted(DIGITS * 3) and len({one.name for one in some}) == 30
    assert some == speech.drawn(every, 30, 1) != speech.drawn(every, 30, 2)


def test_the_recipe_from_recordings_to_numbers(data, monkeypatch):
    monkeypatch.setattr(speech, "LABELS", (10,))
    recipe(data, monkeypatch, "--part", "sounds")
    tables = data / "runs" / "sounds"
    test = (tables / "test.csv").read_text().split("\n")[1:-1]
    assert test and all("_theo_" in line for line in test)
    assert not any("_theo_" in line for line in (tables / "train-10-0.csv").read_text().split("\n"))
    recipe(data, monkeypatch, "--part", "pretrain")
    for start in ("pretrained", "scratch"):
        recipe(data, monkeypatch, "--part", "finetune", "--start", start, "--labels", "10")
    recipe(data, monkeypatch, "--part", "probe")
    lines = [json.loads(line) for line in (data / "results" / "beyond.jsonl").read_text().splitlines()]
    probed = [line for line in lines if "probed" in line["row"]]
    assert len(probed) == 2 * len(speech.SEEDS) and all(0 <= line["value"] <= 100 for line in probed)
    lines = [line for line in lines if line not in probed]
    assert {line["row"] for line in lines} == {f"wav2vec 2.0, {words}" for words in speech.WORDS.values()}
    assert {line["split"] for line in lines} == {speech.UNHEARD_SPLIT, "the labelled recordings themselves"}
    assert {line["metric"] for line in lines} == {"word error rate", "character error rate", "digit error rate"}
    assert all(line["data"] == "Spoken digits, 10 labelled" and line["seconds"] >= 0 for line in lines)
