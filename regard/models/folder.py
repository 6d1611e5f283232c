"""A model on disk: the folder everyone reads, `config.json` and `model.safetensors` (and what else its task needs)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import __version__
from regard.checkpoints.files import MANIFEST, Content, check_folder, load_tensors, remove_folder, write_folder
from regard.checkpoints.weights import check_weights, set_weights, weights_of
from regard.config import did_you_mean, from_dict, to_dict
from regard.errors import Problem
from regard.models import FAMILIES

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save_model(folder: Path, model: nn.Module, others: Mapping[str, bytes]) -> None:
    """Write a model, and other files beside it, in the place of what was there."""
    if folder.exists():
        remove_folder(folder)
    config = {"model_type": family_of(model), "regard_version": __version__, **to_dict(model.config)}
    own: dict[str, Content] = {CONFIG: json.dumps(config, indent=2).encode(), WEIGHTS: weights_of(model)}
    write_folder(folder, own | dict(others))


def load_model(folder: Path) -> nn.Module:
    """The model of a folder, ready for use; every tensor accounted for."""
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder; give one that holds {CONFIG} and {WEIGHTS}")
    if (folder / MANIFEST).exists():
        check_folder(folder)
    config_kind, model_kind, settings = read_config(folder / CONFIG)
    config: Any = from_dict(config_kind, settings, str(folder / CONFIG))
    tensors = load_tensors(folder / WEIGHTS)
    with torch.device("meta"):  # shapes first: nothing is allocated for a config that does not fit its file
        check_weights(model_kind(config), tensors, folder / WEIGHTS)
    model = model_kind(config)
    set_weights(model, tensors, folder / WEIGHTS)
    return model.eval()


def read_config(path: Path) -> tuple[type, type, dict[str, Any]]:
    """The kinds of config and model a config.json names, and the settings in it."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"{path} is missing: this folder does not hold a model") from None
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise Problem(f"{path} names no model_type; there are: {', '.join(FAMILIES)}")
    family = settings.pop("model_type")
    settings.pop("regard_version", None)
    if family not in FAMILIES:
        raise Problem(f"{path}: no family is called {family!r}; {did_you_mean(str(family), FAMILIES)}")
    return *FAMILIES[family], settings


def family_of(model: nn.Module) -> str:
    return next(name for name, (_, kind) in FAMILIES.items() if type(model) is kind)
