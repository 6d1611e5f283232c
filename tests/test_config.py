"""Configs from dictionaries and from `--set`: what is right comes through, what is wrong is named."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from regard.config import change, from_dict, settings_of, to_dict
from regard.errors import Problem, UsageProblem


@dataclass(frozen=True)
class Inner:
    layers: int = 2
    kind: Literal["short", "long"] = "short"


@dataclass(frozen=True)
class Outer:
    rate: float = 0.5
    name: str = "one"
    open: bool = False
    limit: int | None = None
    inner: Inner = field(default_factory=Inner)
    other: Inner | None = None
    sizes: tuple[int, ...] = (1, 2)


def test_a_config_survives_json():
    config = Outer(rate=0.1, limit=3, inner=Inner(5, "long"), other=Inner(), sizes=(4,))
    assert from_dict(Outer, json.loads(json.dumps(to_dict(config)))) == config
    assert from_dict(Outer, {}) == Outer()


@pytest.mark.parametrize(
    "path, value, wanted",
    [
        ("rate", 1, Outer(rate=1.0)),
        ("limit", 4, Outer(limit=4)),
        ("limit", None, Outer()),
        ("inner.layers", 7, Outer(inner=Inner(7))),
        ("inner", {"layers": 7}, Outer(inner=Inner(7))),
        ("other", {"kind": "long"}, Outer(other=Inner(kind="long"))),
        ("sizes", [3, 4], Outer(sizes=(3, 4))),
    ],
)
def test_change_gives_a_changed_copy(path, value, wanted):
    config = Outer()
    assert change(config, path, value) == wanted
    assert config == Outer()


def test_a_whole_number_for_a_float_becomes_a_float():
    assert isinstance(change(Outer(), "rate", 1).rate, float)


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("raet", 1, ["raet", "Outer", "'rate'"]),
        ("inner.layer", 1, ["inner.layer", "'layers'"]),
        ("zzz", 1, ["zzz", "there are", "limit, name"]),
        ("rate.deep", 1, ["rate.deep", "no fields"]),
        ("", 1, ["Outer"]),
        ("rate", "fast", ["rate", "float", "'fast'"]),
        ("rate", True, ["rate", "float", "True"]),
        ("limit", 1.5, ["limit", "int", "1.5"]),
        ("inner.layers", True, ["inner.layers", "int", "True"]),
        ("inner.layers", None, ["inner.layers", "int", "None"]),
        ("inner.kind", "tall", ["inner.kind", "'tall'", "short, long"]),
        ("open", 1, ["open", "bool", "1"]),
        ("sizes", 3, ["sizes", "list", "3"]),
        ("sizes", [1, "2"], ["sizes", "int", "'2'"]),
    ],
)
def test_a_bad_setting_is_named_with_its_place(path, value, words):
    with pytest.raises(UsageProblem) as raised:
        change(Outer(), path, value)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(
    "data, words",
    [
        ({"inner": {"layrs": 3}}, ["inner.layrs", "'layers'"]),
        ({"inner": 3}, ["inner", "object", "3"]),
        ([], ["Outer", "object", "[]"]),
        ({"other": {"layers": "3"}}, ["other.layers", "int", "'3'"]),
    ],
)
def test_a_bad_file_is_named_with_its_place(data, words):
    with pytest.raises(Problem) as raised:
        from_dict(Outer, data)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("inner.layers=4", ("inner.layers", 4)),
        (" rate =0.5", ("rate", 0.5)),
        ("name=two words", ("name", "two words")),
        ("name=a=b", ("name", "a=b")),
        ("name=", ("name", "")),
        ("open=true", ("open", True)),
        ("limit=null", ("limit", None)),
        ("sizes=[1,2]", ("sizes", [1, 2])),
        ("limit=" + "9" * 5000, ("limit", "9" * 5000)),
    ],
)
def test_set_reads_json_or_plain_words(text, wanted):
    assert settings_of(text) == wanted


def test_set_without_a_value_says_what_was_expected():
    with pytest.raises(UsageProblem, match="PATH=VALUE"):
        settings_of("inner.layers")
