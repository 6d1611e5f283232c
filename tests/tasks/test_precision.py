"""In which precision a model is used: what each kind does with it, on a CPU and where there is a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.box import boxes
from regard.data.ears import Ears
from regard.errors import Problem, UsageProblem
from regard.layers.lowered import NEEDS, Lowered, instructions
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.transformer import Transformer, transformer
from regard.models.wav2vec2 import PRESETS as HEARING
from regard.tasks.listener import Listener
from regard.tasks.precision import in_precision
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.tokenizer import GPT, Tokenizer

TEXTS = ["A warm, funny film.", "A dull and endless mess of a film.", "It is what it is."]
PRECISIONS = [name for name in NEEDS if instructions() & set(NEEDS[name])]
WORDS = Tokenizer.train("words", ["the cat sat", "a dog sat"], 20)
BYTES = Tokenizer.train("byte-bpe", ["the cat sat"] * 3, 262, special=GPT)


def writer() -> Writer:
    return Writer(new_encoder("gpt2", gpt2(1, 16, 2, BYTES.size, longest=8), {"write"}), BYTES)


@pytest.mark.skipif("sentiment" not in boxes(), reason="the box is empty")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_model_of_the_box_says_the_same(precision, tmp_path):
    exact, rounded = regard.load("sentiment", "cpu"), regard.load("sentiment", "cpu", precision)
    assert any(isinstance(part, Lowered) for part in rounded.model.modules())
    for one, other in zip(exact.predict(TEXTS), rounded.predict(TEXTS), strict=True):
        assert one.label == other.label and 0 < abs(one.probability - other.probability) < 0.03
    near = (exact.embed(TEXTS) * rounded.embed(TEXTS)).sum(1)
    near /= np.linalg.norm(exact.embed(TEXTS), axis=1) * np.linalg.norm(rounded.embed(TEXTS), axis=1)
    assert near.min() > 0.99
    with pytest.raises(Problem, match="is not saved"):
        rounded.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.skipif("sentiment" not in boxes(), reason="the box is empty")
@pytest.mark.skipif(not PRECISIONS, reason="this CPU has no instructions for lower precision")
def test_it_is_not_trained_on(tmp_path):
    from regard.tasks.classify import Classify
    from regard.tasks.finetuned import with_task

    rounded = regard.load("sentiment", "cpu", PRECISIONS[0])
    with pytest.raises(Problem, match="is not saved, for its weights were rounded; load it again in float32"):
        with_task(rounded.reader, "classify", Classify.load(rounded.reader.published))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_elsewhere_than_on_a_cpu(precision):
    """The device `meta` has no numbers, and is no CPU."""
    translator = Translator(Transformer(transformer(1, 16, 2, 32, vocab=WORDS.size)).to("meta"), WORDS, WORDS)
    writes, reads = writer(), Reader(writer().published, BYTES)
    for found in (translator, writes, reads):
        found.model.to("meta")
        if precision == "int8":
            with pytest.raises(UsageProblem, match="int8 is for a CPU, and the model is on meta; choose bf16"):
                in_precision(found, precision)
        else:
            assert in_precision(found, precision) is found
    if precision == "bf16":  # what writes has a copy of its own
        assert translator.precision == writes.precision == "bf16"
        assert next(translator.model.parameters()).dtype == next(writes.model.parameters()).dtype == torch.float32
        assert next(reads.model.parameters()).dtype == torch.bfloat16
        with pytest.raises(Problem, match="is not saved"):
            reads.published.files()


def test_sound_is_heard_on_a_gpu_in_float32():
    with torch.device("meta"):
        published = new_encoder("wav2vec2", HEARING["wav2vec2-tiny"], set())
    with pytest.raises(UsageProblem, match="pictures and sound are read in float32"):
        in_precision(Listener(published, Ears()), "bf16")
