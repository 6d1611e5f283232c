"""A config.json's keys, read in either direction; what is not ours stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from regard.checkpoints.settings import (
    Settings,
    check_whole,
    own_fields,
    unmarked,
    with_own_fields,
    without_own,
)
from regard.errors import Problem, UsageProblem


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


# Fields that the published form has no key for


@dataclass(frozen=True)
class Whole(Outer):
    rotary: bool = False
    sizes: tuple[int, ...] = (1, 2)
    inner_dropout: float = 0.0


def described(config: Whole, **theirs) -> dict:
    said = {"model_type": "bert", "architectures": ["BertModel"], **theirs}
    return with_own_fields(config, SETTINGS.save(config, said), load_whole)


def load_whole(theirs: dict) -> Whole:
    return own_fields(SETTINGS.load(Whole(), theirs), theirs)


def test_a_config_that_their_keys_describe_gets_no_key_of_ours():
    said = described(Whole(3))
    assert "regard" not in said and said["model_type"] == "bert" and said["architectures"] == ["BertModel"]


def test_a_field_without_a_key_is_kept_and_the_folder_marked():
    config = Whole(3, inner=Inner(16), wide=8, rotary=True, sizes=(4,))
    said = described(config)
    assert said["regard"] == {"wide": 8, "rotary": True, "sizes": (4,)}  # of two fields that share a key, the second
    assert said["model_type"] == "regard-bert" and said["architectures"] == ["RegardBertModel"]
    plain = unmarked(said)
    assert plain["model_type"] == "bert" and plain["architectures"] == ["BertModel"]
    assert load_whole(plain) == config
    assert described(config, **without_own(plain)) == said  # saved again, it is the same file


def test_dropout_is_kept_without_a_mark():
    said = described(Whole(inner_dropout=0.5))
    assert said["regard"] == {"inner_dropout": 0.5} and said["model_type"] == "bert"


def test_a_config_that_would_not_come_back_is_refused_with_its_fields():
    with pytest.raises(Problem, match=r"layers=3, inner\.width=16: a folder of this model would not keep that"):
        check_whole(Whole(3, inner=Inner(16)), Whole())


@pytest.mark.parametrize(
    "fields, told",
    [
        ([], "regard is .*: it should be an object"),
        ({"rotar": True}, "Whole has no field 'rotar'"),
        ({"inner.width": "wide"}, "inner.width: expected int"),
        ({"inner": 3, "inner.width": 4}, "inner.width: inner has a value already"),
    ],
    ids=str,
)
def test_fields_of_ours_that_cannot_be_are_told(fields, told):
    with pytest.raises(UsageProblem, match=told):
        load_whole({"regard": fields})


@pytest.mark.parametrize("theirs", [{}, {"model_type": "bert"}, {"model_type": 3, "architectures": None}], ids=str)
def test_what_is_not_marked_stays_as_it_is(theirs):
    assert unmarked(theirs) == theirs
