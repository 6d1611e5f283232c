"""Models loaded for use on a GPU in bf16: about what they say in float32; int8 is refused there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.box import boxes
from regard.errors import UsageProblem

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(len(boxes()) < 6, reason="the box is empty"),
]
TEXTS = ["A warm, funny film.", "A dull and endless mess of a film.", "It is what it is."]


def test_what_reads_is_near():
    exact, rounded = regard.load("sentiment", "cuda"), regard.load("sentiment", "cuda", "bf16")
    one, other = exact.embed(TEXTS), rounded.embed(TEXTS)
    near = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert near.min() > 0.99 and not np.array_equal(one, other)
    for wanted, found in zip(exact.predict(TEXTS), rounded.predict(TEXTS), strict=True):
        assert wanted.label == found.label and abs(wanted.probability - found.probability) < 0.05


def test_what_fills_tags_translates_and_writes():
    assert regard.load("encoder", "cuda", "bf16").fill("She opened the [MASK].", 1)[0][0].word
    assert regard.load("entities", "cuda", "bf16")("Angela Merkel met the head of Siemens in Munich.").entities
    assert regard.load("translate-de-en", "cuda", "bf16")("Ein Mann fährt Fahrrad.")
    assert regard.load("language-model", "cuda", "bf16")("The old man", most=4)


def test_int8_is_for_a_cpu():
    with pytest.raises(UsageProblem, match="int8 is for a CPU, and the model is on cuda"):
        regard.load("encoder", "cuda", "int8")
