"""The examples run, and the scores they tell are those of docs/results."""

from __future__ import annotations

import ast
import json
import lzma
import random
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ANIMALS = ("cat", "dog", "mat")
TOLD = {"sentence_vectors": ("accuracy", "SST-2"), "offensive_language": ("F1", "Davidson")}  # metric, begin of data


def run(name: str, *arguments: object, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def texts(kinds: int, count: int) -> list[tuple[str, int]]:
    """Texts that a vector can tell apart: each is of one animal."""
    draw = random.Random(0)
    labels = [draw.randrange(kinds) for _ in range(count)]
    return [(f"the {ANIMALS[label]} sat {'and sat ' * draw.randrange(3)}too", label) for label in labels]


def test_sentence_vectors(small_bert, tmp_path, monkeypatch, capsys):
    file = tmp_path / "train.tsv"
    file.write_text("".join(f'"{text}\t{label}\n' for text, label in texts(2, 2100)))  # a quote is only a character
    run("sentence_vectors", small_bert, file, monkeypatch=monkeypatch)
    vectors, score = capsys.readouterr().out.splitlines()
    assert vectors.startswith("2,000 sentences as vectors of 16 numbers, ")
    assert score == "accuracy 100.0 (1,500 to train, 500 to test)"


@pytest.mark.parametrize("pack", [False, True], ids=["plain", "packed"])
def test_offensive_language(small_bert, tmp_path, monkeypatch, capsys, pack):
    lines = (f'{number},{label},"{text},\n{text}"\n' for number, (text, label) in enumerate(texts(3, 130)))
    content = (",class,tweet\n" + "".join(lines)).encode()  # a tweet may have several lines
    file = tmp_path / ("tweets.csv.xz" if pack else "tweets.csv")
    file.write_bytes(lzma.compress(content) if pack else content)
    run("offensive_language", small_bert, file, monkeypatch=monkeypatch)
    told = capsys.readouterr().out
    assert set(re.findall(r"^ +(hate|neither|offensive) ", told, re.MULTILINE)) == {"hate", "neither", "offensive"}
    assert re.search(r"^ +accuracy +[\d.]+ +32$", told, re.MULTILINE)  # of 130, a quarter is tested on
    assert told.splitlines()[-1] == "macro-F1 100.0"


@pytest.mark.parametrize("name", TOLD)
def test_an_example_tells_the_score_that_was_measured(name):
    metric, data = TOLD[name]
    lines = (ROOT / "docs" / "results" / "encoders.jsonl").read_text().splitlines()
    [value] = {
        line["value"]
        for line in map(json.loads, lines)
        if line["metric"] == metric and line["data"].startswith(data) and line["row"].startswith("MiniLM")
    }
    told = ast.get_docstring(ast.parse((ROOT / "examples" / f"{name}.py").read_text()))
    assert re.findall(r"\d+\.\d", told) == [f"{value:.1f}"]
