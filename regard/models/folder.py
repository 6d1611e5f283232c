"""A model on disk: the folder everyone reads, `config.json` and `model.safetensors` (and what else its task needs)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import __version__
from regard.checkpoints.files import (
    MANIFEST,
    PARTIAL,
    WEIGHTS,
    Content,
    check_folder,
    check_regular_files,
    load_tensors,
    load_weights,
    write_folder,
)
from regard.checkpoints.fit import leave_out
from regard.checkpoints.settings import unmarked
from regard.checkpoints.weights import check_weights, set_weights, weights_of
from regard.config import from_dict, to_dict
from regard.errors import Problem, UsageProblem
from regard.models import FAMILIES, PUBLISHED, PUBLISHED_TRANSLATORS
from regard.models.published import Published
from regard.models.published_translator import GENERATION, PublishedTranslator

CONFIG = "config.json"
SHORTEST_CORRECTED = 6  # letters of a family's name for which a slip is told
KNOWN = [*{**FAMILIES, **PUBLISHED, **PUBLISHED_TRANSLATORS}]


def save_model(folder: Path, model: nn.Module, others: Mapping[str, bytes]) -> None:
    """Write a model, and other files beside it."""
    config = {"model_type": family_of(model), "regard_version": __version__, **to_dict(model.config)}
    save_files(folder, {CONFIG: json.dumps(config, indent=2).encode(), WEIGHTS: weights_of(model), **others})


def save_files(folder: Path, files: Mapping[str, Content]) -> None:
    """Write a model's folder; a model that was there is replaced once the new one is whole."""
    if not folder.exists():
        write_folder(folder, files)
    elif (folder / CONFIG).is_file() and (folder / MANIFEST).is_file():
        replace_folder(folder, files)
    else:
        raise Problem(f"{folder} exists and holds no model of regard. Remove it, or choose another folder.")


def replace_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write beside, then swap: at every instant there is a whole folder."""
    new, old = (folder.with_name(f".{folder.name}{PARTIAL}{os.getpid()}-{which}") for which in ("new", "old"))
    write_folder(new, files)
    folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old)


def checked_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder; give one that holds {CONFIG} and {WEIGHTS}")
    if (folder / MANIFEST).exists():
        check_folder(folder)


def load_published(folder: Path, ignore: Sequence[str] = ()) -> Published:
    """The encoder of a folder that we or others wrote, with the heads it carries; every tensor accounted for, but for
    those that are ignored, whose names match one of these patterns."""
    checked_folder(folder)
    named, settings = read_json(folder / CONFIG)
    if named and named not in PUBLISHED:
        raise unknown_family(folder / CONFIG, named)
    tensors, faults = leave_out(load_weights(folder), ignore, folder), []
    for family in [named] if named else PUBLISHED:  # the oldest configs do not say what they are of: the names do
        try:
            return PUBLISHED[family].load({"model_type": family, **settings}, tensors, folder)
        except UsageProblem as problem:
            faults.append(Problem(f"{folder / CONFIG}: {problem}"))
        except Problem as problem:
            faults.append(problem)
    raise faults[0]


def is_published_translator(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and read_json(folder / CONFIG)[0] in PUBLISHED_TRANSLATORS


def load_published_translator(folder: Path, ignore: Sequence[str] = ()) -> PublishedTranslator:
    """The translator of a folder in the form others know; every tensor accounted for."""
    checked_folder(folder)
    family, settings = read_json(folder / CONFIG)
    generation = read_json(folder / GENERATION)[1] if (folder / GENERATION).is_file() else {}
    try:
        theirs = {"model_type": family, **settings}
        tensors = leave_out(load_weights(folder), ignore, folder)
        return PUBLISHED_TRANSLATORS[family](theirs, generation, tensors, folder)
    except UsageProblem as problem:
        raise Problem(f"{folder / CONFIG}: {problem}") from None


def load_model(folder: Path, ignore: Sequence[str] = ()) -> nn.Module:
    """The model of a folder of ours, ready for use; every tensor accounted for."""
    checked_folder(folder)
    outline = outlined(folder / CONFIG)
    tensors = leave_out(load_tensors(folder / WEIGHTS), ignore, folder)
    check_weights(outline, tensors, folder / WEIGHTS)
    model = type(outline)(outline.config)
    set_weights(model, tensors, folder / WEIGHTS)
    return model.eval()


def outlined(path: Path) -> nn.Module:
    """The model a config.json describes, without its numbers: nothing is allocated for a config that fits no file."""
    config_kind, model_kind, settings = read_config(path)
    try:
        with torch.device("meta"):
            return model_kind(from_dict(config_kind, settings))
    except Problem as problem:
        raise Problem(f"{path}: {problem}") from None


def read_config(path: Path) -> tuple[type, type, dict[str, Any]]:
    """The kinds of config and model a config.json of ours names, and the settings in it."""
    family, settings = read_json(path)
    settings.pop("regard_version", None)
    if not family:
        raise Problem(f"{path} names no model_type; there are: {', '.join(FAMILIES)}")
    if family not in FAMILIES:
        raise unknown_family(path, family)
    return *FAMILIES[family], settings


def unknown_family(path: Path, named: str) -> Problem:
    """A name is suggested only for a slip of one letter: camembert is near to albert, and another network."""
    meant = [f"; did you mean {name!r}?" for name in KNOWN if is_slip(named, name)]
    known = ", ".join(KNOWN)
    hint = meant[0] if meant else ""
    return Problem(f"{path}: the model_type is {named!r}, which is not among the families there are: {known}{hint}")


def is_slip(named: str, name: str) -> bool:
    """Whether a name lacks a letter, or has one too many.  Short names are near to real ones: bart and beit."""
    short, long = sorted((named, name), key=len)
    return len(name) >= SHORTEST_CORRECTED and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def read_json(path: Path) -> tuple[str, dict[str, Any]]:
    """The family a config.json names, if it names one, and what else it says.  It is the first file of a folder that is
    read: the others must be files too."""
    check_regular_files(path.parent)
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"{path} is missing: this folder does not hold a model") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Problem(f"{path} cannot be read as JSON: {error}") from None
    settings = unmarked(settings) if isinstance(settings, dict) else settings
    family = settings.pop("model_type", "") if isinstance(settings, dict) else None
    if not isinstance(family, str):
        raise Problem(f"{path} names no model_type; there are: {', '.join(KNOWN)}")
    return family, settings


def family_of(model: nn.Module) -> str:
    return next(name for name, (_, kind) in FAMILIES.items() if type(model) is kind)
