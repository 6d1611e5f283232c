"""Looks as numbers in files: what comes back is what was there."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.errors import UsageProblem
from regard.viewer import saving
from regard.viewer.contents import contents, spread, total
from regard.viewer.look import Look
from regard.viewer.saving import as_json, nested, save
from regard.viewer.view import View

TEXT, OTHER = ["▁one", "▁\ud800", "▁three"], ["▁eins", "▁zwei"]


def weights(*shape: int) -> np.ndarray:
    drawn = np.random.default_rng(0).random(shape)
    return (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)


@pytest.fixture
def encoder() -> Look:
    return Look.of_arrays(weights(2, 4, 3, 3), TEXT, name="small")


@pytest.fixture
def translator() -> Look:
    return Look.of_arrays(weights(2, 4, 2, 3), OTHER, TEXT, name="pair")


def header_of(layers: int, heads: int, length: int, size: int = 64) -> dict:
    layer = {"heads": heads, "queries": length, "keys": length, "size": size, "bias": False}
    attention = {"name": "encoder", "title": "Encoder", "queries": "text", "keys": "text", "rollout": True,
                 "flow": False, "explain": [], "layers": [layer] * layers}  # fmt: skip
    return {"sides": {"text": {"pieces": ["a"] * length}}, "attentions": [attention], "states": [], "explanations": []}


def test_json_holds_header_and_numbers(tmp_path, encoder, translator):
    assert save([encoder, translator], tmp_path / "a.JSON") == [tmp_path / "a.JSON"]
    text = (tmp_path / "a.JSON").read_text(encoding="utf-8")
    first, second = json.loads(text)
    assert first == json.loads(json.dumps(as_json(encoder))) and first["look"] == encoder.header()
    assert len(text.split("\n")) == 5
    names = ["encoder/mean", "encoder/rollout", "encoder/0/weights", "encoder/1/weights", "encoder/flow"]
    assert list(first["blocks"]) == names
    for name, block in first["blocks"].items():
        np.testing.assert_allclose(block, encoder.block(name), atol=1e-7)
    assert set(second["blocks"]) == {"cross/mean", "cross/0/weights", "cross/1/weights"}


def test_json_of_a_long_text_holds_what_stands_for_all_layers(encoder, monkeypatch):
    monkeypatch.setattr(saving, "FEW", 50)
    assert set(as_json(encoder)["blocks"]) == {"encoder/mean", "encoder/rollout"}


def test_minus_infinity_is_null():
    assert nested(np.array([[0.1, -np.inf]], np.float32)) == [[0.1, None]]
    assert nested(np.array([0.123456789, 2.0], np.float32)) == [0.1234568, 2.0]


@pytest.mark.parametrize("name", ["encoder", "translator"])
def test_arrays_are_read_again(tmp_path, name, request):
    look = request.getfixturevalue(name)
    save([look], tmp_path / "a.npz")
    again = Look.of_file(tmp_path / "a.npz")
    assert again.header() == look.header()
    for block in look.blocks():
        np.testing.assert_array_equal(again.block(block), look.block(block))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays["weights"].shape[:2] == (2, 4) and arrays["weights"].dtype == np.float32
    written = (tmp_path / "a.npz").read_bytes()
    save([look], tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == written


def test_several_pictures_and_arrays_are_numbered(tmp_path, encoder, translator):
    for suffix in (".svg", ".npz"):
        expected = [tmp_path / f"a-1{suffix}", tmp_path / f"a-2{suffix}"]
        assert save([encoder, translator], tmp_path / f"a{suffix}") == expected
        assert all(path.exists() for path in expected)
    assert save([encoder], tmp_path / "one.png", View("grid")) == [tmp_path / "one.png"]


@pytest.mark.parametrize("name", ["a.gif", "a", "a.html.gz"])
def test_unknown_extensions_are_refused_with_the_known(tmp_path, encoder, name):
    with pytest.raises(UsageProblem, match=r"use \.html, \.json, \.npz, \.png, \.svg, \.pdf"):
        save([encoder], tmp_path / name)


# what a file of limited size holds


def test_all_that_fits_is_held():
    short = contents(header_of(12, 12, 20), 32_000_000)
    assert set(short.types.values()) == {"float32"} and not short.notes
    kinds = {name.rpartition("/")[2] for name in short.types}
    assert kinds == {"mean", "rollout", "weights", "q", "k", "v", "scores"}


def test_details_go_first_then_precision_then_layers():
    medium = contents(header_of(12, 12, 128), 32_000_000)
    assert set(medium.types.values()) == {"float32"} and len(medium.types) == 14
    assert "queries, keys" in medium.notes[0]
    halved = contents(header_of(12, 12, 256), 32_000_000)
    assert set(halved.types.values()) == {"uint16"} and len(halved.types) == 14
    assert any("rounded to 1/65535" in note for note in halved.notes)
    long = contents(header_of(12, 12, 512), 32_000_000)
    assert list(long.types) == ["encoder/0/weights", "encoder/mean", "encoder/rollout"]
    assert "Encoder: this file holds the heads of layer 1 only; for others there was no room." in long.notes


@pytest.mark.parametrize("length", [1, 64, 65, 128, 300, 512, 1024, 4096])
@pytest.mark.parametrize("room", [1_000_000, 32_000_000])
def test_never_more_than_there_is_room_for(length, room):
    header = header_of(12, 12, length)
    everything = contents(header).types
    kept = contents(header, room)
    square, projected = dict.fromkeys(["mean", "rollout", "weights", "scores"], length), dict.fromkeys("qkv", 64)
    shapes = {kind: (12, length, last) for kind, last in {**square, **projected}.items()}
    sizes = [total({name: shapes[name.rpartition("/")[2]]}, kind) for name, kind in kept.types.items()]
    assert sum(sizes) <= room and set(kept.types) <= set(everything)
    assert kept.notes or set(kept.types) == set(everything)


def test_the_chosen_layer_comes_first():
    assert next(iter(contents(header_of(12, 12, 512), 32_000_000, layer=7).types)) == "encoder/7/weights"
    assert spread(5) == [0, 4, 2, 1, 3] and spread(5, 3)[:2] == [3, 0] and spread(1, 9) == [0]
    assert sorted(spread(24, 5)) == list(range(24))
