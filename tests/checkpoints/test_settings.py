"""A config.json's keys, read in either direction; what is not ours stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from regard.checkpoints.settings import Settings
from regard.errors import Problem


@dataclass(frozen=True)
class Inner:
    width: int = 8
    activation: str = "gelu"


@dataclass(frozen=True)
class Outer:
    layers: int = 2
    share: float = 0.5
    inner: Inner = field(default_factory=Inner)
    wide: int = 8


SETTINGS = Settings(
    (
        ("layers", "num_layers"),
        ("share", "dropout"),
        ("inner.width", "hidden_size"),
        ("wide", "hidden_size"),
        ("inner.activation", "hidden_act"),
    ),
    {"hidden_act": {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "silu": "swish"}},
)
THEIRS = {"num_layers": 3, "dropout": 0.1, "hidden_size": 16, "hidden_act": "silu"}
OURS = Outer(3, 0.1, Inner(16, "swish"), 16)


def test_the_table_is_read_in_both_directions():
    assert SETTINGS.load(Outer(), THEIRS) == OURS
    assert SETTINGS.save(OURS, {}) == THEIRS


def test_silence_and_null_keep_the_default():
    assert SETTINGS.load(Outer(), {}) == Outer()
    assert SETTINGS.load(Outer(), {"num_layers": None, "hidden_act": None, "hidden_size": 4}) == Outer(
        inner=Inner(4), wide=4
    )


def test_what_is_falsy_is_not_silence():
    assert SETTINGS.load(Outer(), {"dropout": 0, "num_layers": 0}) == Outer(layers=0, share=0.0)


def test_their_own_keys_are_kept():
    own = {"auto_map": {"AutoModel": "evil.Model"}, "layers": 99, "inner": None}
    assert SETTINGS.load(Outer(), THEIRS | own) == OURS
    assert SETTINGS.save(OURS, THEIRS | own) == THEIRS | own
    assert SETTINGS.save(Outer(), own) == {
        **own,
        "num_layers": 2,
        "dropout": 0.5,
        "hidden_size": 8,
        "hidden_act": "gelu",
    }


@pytest.mark.parametrize(
    "word, ours", [("gelu_new", "gelu-tanh"), ("gelu_pytorch_tanh", "gelu-tanh"), ("silu", "swish"), ("relu", "relu")]
)
def test_words_are_translated_and_stay_what_they_were(word, ours):
    theirs = THEIRS | {"hidden_act": word}
    config = SETTINGS.load(Outer(), theirs)
    assert config.inner.activation == ours
    assert SETTINGS.save(config, theirs) == theirs


def test_what_has_changed_is_written():
    assert SETTINGS.save(Outer(5, 0.1, Inner(16, "gelu-tanh"), 16), THEIRS) == THEIRS | {
        "num_layers": 5,
        "hidden_act": "gelu_new",
    }


def test_what_was_given_is_left_alone():
    theirs = dict(THEIRS)
    SETTINGS.save(Outer(), theirs)["num_layers"] = 7
    assert theirs == THEIRS


@pytest.mark.parametrize("value", ["3", 3.5, True, [3], {"a": 3}, {}], ids=str)
@pytest.mark.parametrize("key", ["num_layers", "hidden_size"])
def test_a_value_of_another_kind_is_told(key, value):
    with pytest.raises(Problem, match=r"layers|width"):
        SETTINGS.load(Outer(), {key: value})


@pytest.mark.parametrize("value", [["silu"], {"silu": 1}, 3], ids=str)
def test_a_word_that_is_none_is_told(value):
    with pytest.raises(Problem, match="activation"):
        SETTINGS.load(Outer(), {"hidden_act": value})
