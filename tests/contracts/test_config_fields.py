"""What is saved is what was trained: every field of every family's config, changed one at a time, either comes back
from the model's folder with the same outputs, or is refused by its name before anything is trained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from config_fields import EVERY_FAMILY, base, build, config_of, leaves, load, others, outputs, save, together

from regard.checkpoints.settings import OWN
from regard.config import change
from regard.errors import Problem
from regard.models import HEARERS, PRESETS, PUBLISHED, READERS, SEERS, family_of, t5

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

PAIRWISE = {"stack.causal", "stack.buckets", "stack.residual_scores"}  # what needs all pairs of tokens
REVERSIBLE = {"stack.buckets", "stack.residual_scores", "stack.block.norm_first", "stack.block.cross"}
DECODER = {"encoder.block.cross", "decoder.causal", "decoder.block.cross"}
REFUSED = {  # fields that have but one value in a family, whatever else is changed with them
    **{family: {"stack.block.cross"} for family in PUBLISHED if hasattr(PUBLISHED[family].default, "stack")},
    "longformer": PAIRWISE | {"stack.block.cross"},
    "linformer": PAIRWISE | {"stack.block.cross"},
    "reformer": REVERSIBLE,
    "transformer-xl": {"embedding.positions", "stack.block.attention.positions", "stack.block.cross"},
    "seq2seq": {"decoder.two_way"},
    "transformer": DECODER,
    "marian": DECODER,
    "t5": DECODER | {"target_vocab", "encoder.causal"},
}


def comes_back(family: str, config: Any) -> bool:
    """Save the model of a config and load it again: the same config and the same outputs, or an AssertionError.
    A Problem is a refusal, and only building the model may refuse."""
    made = build(family, config)
    try:
        again = load(family, *save(made))
    except Problem as problem:
        raise AssertionError(f"it was built, and then refused: {problem}") from problem
    assert config_of(again) == config
    for one, other in zip(outputs(family, made), outputs(family, again), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    return True


def kept_or_refused(family: str, config: Any, path: str, value: Any) -> bool:
    """Whether a field with this value comes back, alone or with those that must agree with it."""
    for changed in (lambda: change(config, path, value), lambda: together(family, config, path, value)):
        try:
            return comes_back(family, changed())
        except Problem as problem:
            assert path.rpartition(".")[2] in str(problem), f"{path}={value}: {problem}"
    return False


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_field_comes_back_or_is_refused_by_name(family):
    config, refused = base(family), set()
    assert comes_back(family, config)
    for path, kind, value in leaves(config):
        if not some_kept(family, config, path, others(kind, value)):
            refused.add(path)
    assert refused == REFUSED.get(family, set())


def some_kept(family: str, config: Any, path: str, values: list[Any]) -> bool:
    """Whether a field can be changed: every word is tried, of numbers as many as it takes until one is kept."""
    kept = False
    for value in values:
        kept = kept_or_refused(family, config, path, value) or kept
        if kept and not isinstance(value, str):
            return True
    return kept


def presets() -> list[str]:
    """Those of families that are published elsewhere."""
    return [name for family, file in (READERS | SEERS | HEARERS).items() for name in file.PRESETS]


@pytest.mark.parametrize("preset", presets())
def test_a_preset_needs_no_key_of_our_own(preset):
    family = family_of(preset)
    said = PUBLISHED[family].described(PRESETS[preset], {"model_type": family}, "Architecture")
    assert OWN not in said and said["model_type"] == family and said["architectures"] == ["Architecture"]


@pytest.mark.parametrize("preset", t5.PRESETS)
def test_a_t5_needs_no_key_of_our_own(preset):
    with torch.device("meta"):
        said = t5.new(t5.T5(t5.PRESETS[preset]), 0, 1).described()
    assert OWN not in said and said["model_type"] == "t5"


def test_the_key_that_earlier_versions_wrote_is_read():
    """RealFormer's scores had a key of their own, and a folder with it was not marked."""
    config = change(base("bert"), "stack.residual_scores", True)
    made = build("bert", config)
    settings, tensors = save(made)
    assert settings.pop("regard") == {"stack.residual_scores": True}
    older = settings | {"regard_residual_scores": True, "model_type": "bert", "architectures": ["BertForMaskedLM"]}
    again = load("bert", older, tensors)
    assert config_of(again) == config
    assert save(again)[0] == settings | {"regard": {"stack.residual_scores": True}}
