"""The rows of `regard bench embed` in lower precision: the same weights as everyone's, and how far vectors move."""

from __future__ import annotations

import re

import pytest
from players import played

from benchmarks import embed, embedders, lowered, mixed
from benchmarks.contest import compare
from benchmarks.plan import Plan
from regard.layers.lowered import NEEDS, instructions

TEXTS = ["the cat sat", "a dog", "the mat and the dog sat too"]


def test_rows_are_those_that_are_asked_for():
    plan = Plan("model", "texts", "cpu", 1, batch=2, steps=1, stretches=2)
    names = ["regard", "regard-int8"]
    assert [name for name, *_ in embed.chosen_rows(names, plan)] == names
    assert [name for name, *_ in embed.chosen_rows(["regard-bf16"], plan)] == ["regard-bf16"]
    assert not {name for name, *_ in embed.chosen_rows(None, plan)} & set(lowered.CONTENDERS)


@pytest.mark.parametrize("name", lowered.CONTENDERS)
def test_what_is_compared_is_float32_and_the_difference_is_told(name, small_bert, tmp_path, monkeypatch, capsys):
    precision = name.removeprefix("regard-")
    if not instructions() & set(NEEDS[precision]):
        pytest.skip(f"this CPU has no instructions for {precision}")
    monkeypatch.setattr("regard.layers.lowered.SMALLEST", 1)
    monkeypatch.setattr("regard.layers.lowered.FEWEST", 1)
    plan = Plan(str(small_bert), mixed.written(TEXTS, tmp_path / "texts.json"), "cpu", 1, 2, steps=1, stretches=2)
    shown, *stretches = played(lowered.CONTENDERS[name], plan)
    exact, *others = played(embedders.CONTENDERS["regard"], plan)
    assert compare("regard", exact, name, shown) < 1e-6
    assert [one.tokens for one in stretches] == [one.tokens for one in others]
    told = re.search(rf"{name}: cosine with float32 (\S+) on average, (\S+) at least", capsys.readouterr().err)
    mean, least = map(float, told.groups())
    assert 0.99 < least <= mean <= 1
