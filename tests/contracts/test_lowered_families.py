"""What every family owes that is used in lower precision: about the same states and scores, by products that are."""

from __future__ import annotations

import pytest
import torch
from watched_models import LOOKED, READ, TEXT, TRANSLATED, WRITTEN, cove_reader, reader, translator

from regard.attention.watch import watch
from regard.decoding.generate import Writing
from regard.errors import Problem
from regard.layers import lowered as part
from regard.layers.lowered import NEEDS, Lowered, instructions
from regard.rows import Tokens
from regard.tasks.precision import in_precision
from regard.viewer.looking import look

ROWS, TARGETS = [[5, 6, 7, 8, 9], [7, 3, 8], [4]], [[1, 6, 4], [1, 3, 5, 9], [1]]
OFF = {"bf16": 0.05, "int8": 0.15}  # the numbers are loud, and so is what rounding does to them
pytestmark = pytest.mark.parametrize("precision", [name for name in OFF if instructions() & set(NEEDS[name])])


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(part, "SMALLEST", 1)
    monkeypatch.setattr(part, "FEWEST", 1)


def near(found, wanted, precision) -> bool:
    return bool((found - wanted).norm() < OFF[precision] * wanted.norm())


@pytest.mark.parametrize("preset", [*READ, "cove"])
@torch.inference_mode()
def test_what_reads(preset, precision):
    reads = cove_reader() if preset == "cove" else reader(preset)
    exact = torch.tensor(reads.embed([TEXT, "mat"]))
    in_precision(reads, precision)
    assert any(isinstance(one, Lowered) for one in reads.model.modules()) or preset not in LOOKED
    found = torch.tensor(reads.embed([TEXT, "mat"]))
    assert near(found, exact, precision)
    with watch(reads.model):
        assert torch.equal(torch.tensor(reads.embed([TEXT, "mat"])), found)
    with pytest.raises(Problem, match="is not saved"):
        reads.published.files()


@pytest.mark.parametrize("preset", TRANSLATED)
@torch.inference_mode()
def test_what_translates(preset, precision):
    translates = translator(preset)
    model, asked = translates.model, (Tokens.of(ROWS), Tokens.of(TARGETS))
    exact = model.logits(model(*asked))
    in_precision(translates, precision)
    assert near(model.logits(model(*asked)), exact, precision) and not torch.equal(model.logits(model(*asked)), exact)
    assert translates.translate([TEXT])[0][0].tokens is not None
    with pytest.raises(Problem, match="is not saved"):
        model.state_dict()


@pytest.mark.parametrize("preset", WRITTEN)
def test_what_writes(preset, precision):
    writer = reader(preset)
    exact = writer.log_probabilities(["the"], [" cat"])[0].log_probability
    in_precision(writer, precision)
    assert writer.log_probabilities(["the"], [" cat"])[0].log_probability == pytest.approx(exact, rel=0.3, abs=0.3)
    assert writer.generate(["the cat"], Writing(most=4, temperature=0.0))[0].tokens


def test_looking_works_and_gradients_are_refused(precision):
    reads = in_precision(reader("bert-base"), precision)
    found = look(reads, TEXT)
    assert found.block("encoder/0/weights").shape[-1] > 0
    with pytest.raises(Problem, match=r"gradients .* load it again in float32"):
        found.block("encoder/explain/1")
