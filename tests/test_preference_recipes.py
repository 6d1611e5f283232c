"""What the recipes of preferences and of objectives make of data, without training."""

from __future__ import annotations

import json
import lzma
import random
from argparse import Namespace

import pytest

from recipes.objectives_as_text import judged, named, spoken
from recipes.preferences import SOME, WHOLE, distinct, lines, pairs, passage, prepare

REVIEWS = [(number % 2, " ".join([("bad", "good")[number % 2]] * 200)) for number in range(20)]


def test_pairs_prefer_praise_and_are_passages_of_the_length_that_is_read():
    draw = random.Random(0)
    learned, held_out = (list(pairs(REVIEWS, draw, whole)) for whole in (False, True))
    assert len(learned) == 40 and len(held_out) == 10
    for pair in learned + held_out:
        assert set(pair["chosen"].split()) == {"good"} and set(pair["rejected"].split()) == {"bad"}
        assert len(pair["chosen"].split()) <= WHOLE
    assert {len(pair["chosen"].split()) for pair in held_out} == {WHOLE}
    assert max(len(passage(REVIEWS[0][1], draw).split()) for _ in range(50)) <= SOME
    assert passage("so short", draw) == "so short"


def test_who_judges_in_the_end_has_seen_other_reviews(tmp_path):
    for part, label in (("train", None), ("test", None), ("unsup", -1)):
        with lzma.open(tmp_path / f"{part}.jsonl.xz", "wt") as file:
            for number in range(60):
                text = " ".join([f"{part}{number}<br />"] * 30)
                file.write(json.dumps({"label": number % 2 if label is None else label, "text": text}) + "\n")
    prepare(Namespace(text=tmp_path, out=tmp_path / "out", seed=0, small=False))
    text = tmp_path / "out" / "text"
    rewarded = {pair[side].split()[0] for pair in lines(text / "pairs.jsonl") for side in ("chosen", "rejected")}
    labelled = {row["text"].split()[0] for row in lines(text / "labelled.jsonl")}
    prompts = {row["text"].split()[0] for row in lines(text / "beginnings.jsonl")}
    assert rewarded and labelled and not rewarded & labelled
    assert all(word.startswith("train") for word in rewarded | labelled)
    assert all(word.startswith("test") for word in prompts) and "<br" not in (text / "reviews.jsonl").read_text()


def test_what_is_written_again_and_again_is_not_distinct():
    assert distinct(["a good film", "another one"]) == 100
    assert distinct(["good good good good good"]) == 25


def test_tasks_as_text():
    assert named("MRPC", ("One.", "Two.")) == "mrpc first : One. second : Two."
    assert [spoken("STS-B", label) for label in ("3.77", "5.0")] == ["3.8", "5.0"]
    assert spoken("RTE", "not_entailment") == "notentailment"
    assert judged("RTE", ["a", "b", "?"], ["a", "b", "a"]) == pytest.approx(200 / 3)
    assert judged("STS-B", ["1.0", "2.0", "what"], ["2.0", "3.0", "1.0"]) == pytest.approx(100)
    assert judged("MRPC", ["1", "1", "0"], ["1", "0", "1"]) == pytest.approx(50)
