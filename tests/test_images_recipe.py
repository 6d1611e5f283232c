"""The recipe for pictures, on a handful of them: teacher, student, and the student that is taught; then again."""

from __future__ import annotations

import io
import json
import sys
import tarfile

import numpy as np
from PIL import Image

from recipes import images


def test_the_recipe_runs_and_goes_on(tmp_path, monkeypatch, capsys):
    random = np.random.default_rng(0)
    with tarfile.open(tmp_path / "all.tar", "w") as file:
        for name in (f"{part}/{kind}/{n}.png" for part in ("train", "test") for kind in ("a", "b") for n in range(6)):
            content = io.BytesIO()
            Image.fromarray(random.integers(0, 255, (32, 32, 3)).astype(np.uint8)).save(content, "PNG")
            entry = tarfile.TarInfo(name)
            entry.size = len(content.getvalue())
            file.addfile(entry, io.BytesIO(content.getvalue()))
    monkeypatch.setenv("REGARD_COMMIT", "abc")
    words = ["--small", "--data", tmp_path / "all.tar", "--out", tmp_path / "out", "--results", tmp_path / "results"]
    monkeypatch.setattr(sys, "argv", ["images", *map(str, words)])
    images.main()
    lines = [json.loads(line) for line in (tmp_path / "results/beyond.jsonl").read_text().splitlines()]
    assert len(lines) == 3 and all(0 <= line["value"] <= 100 for line in lines)
    assert [line["row"].split(",")[0] for line in lines] == ["Convolutional", "ViT", "ViT with DeiT's token"]
    capsys.readouterr()
    images.main()
    assert capsys.readouterr().err.count("is finished") == 3
