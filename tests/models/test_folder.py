"""Models as folders: all comes back, nothing is lost on the way, and what cannot be is refused before it costs."""

from __future__ import annotations

import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.config import change
from regard.errors import Problem
from regard.models import FAMILIES, folder
from regard.models.folder import load_model, save_model
from regard.models.seq2seq import seq2seq
from regard.models.transformer import transformer
from regard.rows import Tokens

TRANSFORMER, RECURRENT = transformer(1, 16, 2, 32, vocab=11), seq2seq("additive", width=16, vocab=11)
CONFIGS = {
    f"{name} {'tied' if tied else 'untied'} {vocab or 'shared'}": replace(config, tied=tied, target_vocab=vocab)
    for name, config in (("transformer", TRANSFORMER), ("rnn", RECURRENT), ("bottleneck", seq2seq(width=16, vocab=11)))
    for tied in (True, False)
    for vocab in (None, 7)
}
CONFIGS["learned positions"] = change(TRANSFORMER, "embedding.positions", "learned")


def build(config) -> torch.nn.Module:
    torch.manual_seed(0)
    return next(kind for config_kind, kind in FAMILIES.values() if isinstance(config, config_kind))(config).eval()


@torch.no_grad()
def answer(model):
    return model.logits(model(Tokens.of([[3, 4, 5], [6, 2]]), Tokens.of([[1, 2], [1, 5, 6]])))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_comes_back_bit_for_bit(tmp_path, name):
    model = build(CONFIGS[name])
    save_model(tmp_path / "model", model, {"notes.txt": b"kept"})
    again = load_model(tmp_path / "model")
    assert type(again) is type(model) and again.config == model.config and not again.training
    assert torch.equal(answer(again), answer(model))
    assert (again.out.weight is again.embed_target.tokens.weight) == model.config.tied
    save_model(tmp_path / "twin", again, {"notes.txt": b"kept"})
    for path in (tmp_path / "model").iterdir():
        assert path.read_bytes() == (tmp_path / "twin" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_is_in_the_file_once(tmp_path, name):
    model = build(CONFIGS[name])
    save_model(tmp_path / "model", model, {})
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert sum(t.numel() for t in stored.values()) == sum(p.numel() for p in model.parameters())


def test_the_config_can_be_read(tmp_path):
    save_model(tmp_path / "model", build(TRANSFORMER), {})
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["model_type"] == "transformer" and config["embedding"]["vocab"] == 11
    assert set(config) == {"model_type", "regard_version", "embedding", "target_vocab", "tied", "encoder", "decoder"}


# Replacing


def test_a_model_is_replaced_whole(tmp_path):
    first, second = build(TRANSFORMER), build(RECURRENT)
    save_model(tmp_path / "model", first, {"old.txt": b""})
    save_model(tmp_path / "model", second, {"new.txt": b""})
    assert torch.equal(answer(load_model(tmp_path / "model")), answer(second))
    assert not (tmp_path / "model" / "old.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_failed_save_leaves_the_model_that_was_there(tmp_path, monkeypatch):
    first = build(TRANSFORMER)
    save_model(tmp_path / "model", first, {})

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(Problem, match="No space left"):
        patch.setattr(os, "fsync", full)
        save_model(tmp_path / "model", build(RECURRENT), {})
    assert torch.equal(answer(load_model(tmp_path / "model")), answer(first))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("content", [[], ["thesis.txt"], ["config.json"], ["manifest.json"]], ids=str)
def test_a_folder_that_is_no_model_is_never_removed(tmp_path, content):
    (tmp_path / "precious").mkdir()
    for name in content:
        (tmp_path / "precious" / name).write_text("years of work")
    with pytest.raises(Problem, match="precious exists and holds no model of regard"):
        save_model(tmp_path / "precious", build(TRANSFORMER), {})
    assert [path.name for path in (tmp_path / "precious").iterdir()] == content


# What cannot be


def altered(place: Path, **changes) -> Path:
    """A saved model whose config says something else, without the manifest that would notice."""
    save_model(place, build(TRANSFORMER), {})
    (place / "manifest.json").unlink()
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | changes))
    return place


def test_nothing_is_allocated_for_a_config_that_fits_no_file(tmp_path):
    """A block of this width would have 10 ** 15 weights: torch would fail at once if it were to make them."""
    wide = {"embedding": {"vocab": 11, "width": 10**7}}
    block = {"width": 10**7, "inner": 10**8, "attention": {"heads": 2}}
    wide |= {"encoder": {"layers": 1, "block": block}}
    wide |= {"decoder": {"layers": 1, "causal": True, "block": block | {"cross": True}}}
    place = altered(tmp_path / "model", **wide)
    tracemalloc.start()
    with pytest.raises(Problem, match=r"model\.safetensors is of another model"):
        load_model(place)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


@pytest.mark.parametrize("width", [10**9, 10**30, 0, -16])
def test_an_absurd_size_is_named(tmp_path, width):
    place = altered(tmp_path / "model", embedding={"vocab": 11, "width": width})
    with pytest.raises(Problem, match=rf"config.json: width={width} in EmbeddingConfig") as found:
        load_model(place)
    assert found.value.exit_code == 1  # the file is at fault, not the command


def test_weights_of_another_shape_missing_and_extra_are_listed(tmp_path):
    place = altered(tmp_path / "model")
    weights = load_file(place / "model.safetensors")
    weights["encoder.blocks.0.feed.up.bias"] = torch.zeros(3)
    del weights["decoder.blocks.0.cross.q.weight"]
    weights["surprise"] = torch.zeros(1)
    save_file(weights, place / "model.safetensors")
    with pytest.raises(Problem) as found:
        load_model(place)
    for told in ("cross.q.weight is missing", "surprise is not in this model", "feed.up.bias is [3], here [32]"):
        assert told in str(found.value)


def test_the_families_are_told_apart_by_name():
    assert {folder.family_of(build(config)) for config in (TRANSFORMER, RECURRENT)} == {"transformer", "seq2seq"}
