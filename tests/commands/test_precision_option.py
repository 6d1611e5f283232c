"""--precision of the commands that use a model: about the same answers, and plain words where it cannot be had."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.box import boxes
from regard.layers import lowered
from regard.layers.lowered import NEEDS, instructions

PRECISIONS = [name for name in NEEDS if instructions() & set(NEEDS[name])]
needs_box = pytest.mark.skipif(len(boxes()) < 6, reason="the box is empty")


@needs_box
@pytest.mark.parametrize("precision", PRECISIONS)
def test_commands_answer_as_in_float32(call, precision):
    for words in (
        ["classify", "A warm, funny film."],
        ["tag", "Angela Merkel met the head of Siemens in Munich."],
        ["translate", "Ein Mann fährt Fahrrad."],
        ["fill", "She opened the [MASK].", "--best", 1],
        ["generate", "The old man", "--most", 1, "--temperature", 0],
    ):
        exact, rounded = call(*words), call(*words, "--precision", precision)
        assert exact.code == rounded.code == 0
        assert said(exact.out) == said(rounded.out)


def said(out: str) -> list[str]:
    """Without the numbers."""
    return [word for word in out.split() if not word.replace(".", "").isdigit()]


@needs_box
@pytest.mark.parametrize("precision", PRECISIONS)
def test_vectors_are_near(call, precision):
    words = ["embed", "The government raised taxes."]
    exact, near = (np.array(json.loads(call(*words, *how).out)) for how in ([], ["--precision", precision]))
    assert exact @ near / np.linalg.norm(exact) / np.linalg.norm(near) > 0.99 and not np.array_equal(exact, near)


@needs_box
def test_a_cpu_that_lacks_instructions_is_told_of(call, monkeypatch):
    monkeypatch.setattr(lowered, "instructions", set)
    found = call("classify", "fine", "--precision", "int8")
    assert found.code == 1 and "no instructions for int8" in found.err and "choose float32" in found.err


def test_another_word_is_refused(call):
    found = call("classify", "fine", "--precision", "int4")
    assert found.code == 2 and "int4" in found.err
