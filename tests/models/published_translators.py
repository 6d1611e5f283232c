"""For tests of translators that others published: their folders with something changed, compared, and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import Problem
from regard.tasks.translate import Translator

CONFIGS = ("config.json", "generation_config.json")


def copied(folder: Path, place: Path, tensors=None, settings=None, generation=None) -> Path:
    """The same folder with something changed; a setting that is None is left out."""
    shutil.copytree(folder, place)
    if tensors is not None:
        save_file({name: t.contiguous().clone() for name, t in tensors.items()}, place / "model.safetensors")
    for name, changes in zip(CONFIGS, (settings, generation), strict=True):
        said = json.loads((place / name).read_text()) | (changes or {})
        (place / name).write_text(json.dumps({key: value for key, value in said.items() if value is not None}))
    return place


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> None:
    """Tensors bit for bit, and configs by what they say."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype and torch.equal(tensor, second[name]), name
    for name in CONFIGS:
        assert json.loads((one / name).read_text()) == json.loads((other / name).read_text())


def fault(place: Path) -> str:
    with pytest.raises(Problem) as found:
        Translator.load(place, "cpu")
    assert found.value.exit_code == 1  # the folder is at fault, not the command
    return str(found.value)
