"""The modules of a sentence-transformers folder, each made from the config.json and the weights of its sub-folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.files import PICKLES, WEIGHTS, Content, load_tensors
from regard.errors import Problem
from regard.layers.sentence import (
    ACTIVATIONS,
    SENTENCE,
    TOKENS,
    SentenceDense,
    SentenceLayerNorm,
    SentenceModule,
    SentenceNormalize,
    SentencePooling,
)
from regard.tasks.mix import Mix
from regard.tasks.pooling import ALIASES
from regard.text.files import AGAIN, read_bytes, read_object

CONFIG = "config.json"
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
FLAGS = {  # of releases up to 5.3, in the order in which their vectors stand side by side
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class ModuleFolder:
    """The sub-folder of a module, and the model's folder it lies in."""

    root: Path
    path: str

    @property
    def folder(self) -> Path:
        return self.root / self.path

    def config(self, required: bool = True) -> dict[str, Any]:
        there = self.folder / CONFIG
        if not required and not there.exists():
            return {}
        if not there.is_file():
            raise Problem(f"{there} is missing: it tells how the module works. {AGAIN}")
        return read_object(there)

    def tensors(self) -> dict[str, Tensor]:
        """The weights as they lie there, which are safetensors."""
        if (self.folder / WEIGHTS).exists():
            return load_tensors(self.folder / WEIGHTS)
        pickle = next((path.name for end in PICKLES for path in sorted(self.folder.glob(f"*{end}"))), None)
        if pickle is None:
            remedy = "What the hub has as a pickle alone: regard convert NAME NEW_FOLDER"
            raise Problem(f"{self.folder} holds no {WEIGHTS}. {AGAIN} {remedy}")
        remedy = f"regard convert {self.root} NEW_FOLDER"
        raise Problem(f"{self.folder / pickle} is a pickle, which may run code when read, so it is not: {remedy}")

    def weights(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
        """The weights in float32, if they are these and no others."""
        found = self.tensors()
        there, wanted = ({name: tuple(t.shape) for name, t in found.items()}, dict(shapes))
        if there != wanted:
            raise Problem(f"{self.folder / WEIGHTS} holds {there}, and its {CONFIG} asks for {wanted}. {AGAIN}")
        return {name: tensor.float() for name, tensor in found.items()}

    def files(self) -> dict[str, Content]:
        """What a saved folder keeps of it."""
        found: dict[str, Content] = {}
        if (self.folder / CONFIG).is_file():
            found[f"{self.path}/{CONFIG}"] = read_bytes(self.folder / CONFIG)
        if (self.folder / WEIGHTS).is_file():
            found[f"{self.path}/{WEIGHTS}"] = self.tensors()
        return found


def pooling_module(place: ModuleFolder) -> SentencePooling:
    config = place.config()
    modes = config.get("pooling_mode") or [mode for flag, mode in FLAGS.items() if config.get(flag)] or "mean"
    modes = [modes] if isinstance(modes, str) else modes
    unknown = next(
        (key for key, on in config.items() if key.startswith("pooling_mode_") and key not in FLAGS and on), None
    )
    for mode in [*modes, *([unknown] if unknown else [])]:
        if mode not in MODES:
            raise Problem(f"{place.folder / CONFIG} asks for the pooling {mode!r}; there are: {', '.join(MODES)}")
    return SentencePooling([ALIASES.get(mode, mode) for mode in modes], bool(config.get("include_prompt", True)))


def dense_module(place: ModuleFolder) -> SentenceDense:
    config = place.config()
    wide, narrow = size_in(config, "in_features", place), size_in(config, "out_features", place)
    shapes: dict[str, tuple[int, ...]] = {"linear.weight": (narrow, wide)}
    if config.get("bias", True):
        shapes["linear.bias"] = (narrow,)
    residual = bool(config.get("use_residual"))
    if residual and wide != narrow:
        shapes["residual.weight"] = (narrow, wide)
    weights = place.weights(shapes)
    around = linear_of(weights, "residual") if "residual.weight" in shapes else nn.Identity() if residual else None
    source, target = features_in(config, place)
    return SentenceDense(linear_of(weights, "linear"), activation_in(config, place), source, target, around)


def layer_norm_module(place: ModuleFolder) -> SentenceLayerNorm:
    size = size_in(place.config(), "dimension", place)
    weights = place.weights({"norm.weight": (size,), "norm.bias": (size,)})
    with torch.device("meta"):
        norm = nn.LayerNorm(size)
    norm.weight, norm.bias = frozen(weights["norm.weight"]), frozen(weights["norm.bias"])
    return SentenceLayerNorm(norm)


def normalize_module(place: ModuleFolder) -> SentenceNormalize:
    return SentenceNormalize(*features_in(place.config(required=False), place))


def dropout_module(place: ModuleFolder) -> SentenceModule:
    """It does nothing once a model is trained."""
    return SentenceIdentity()


class SentenceIdentity(SentenceModule):
    def forward(self, x: Tensor) -> Tensor:
        return x


MODULES: dict[str, Callable[[ModuleFolder], SentenceModule]] = {
    "Pooling": pooling_module,
    "Dense": dense_module,
    "LayerNorm": layer_norm_module,
    "Normalize": normalize_module,
    "Dropout": dropout_module,
}


def weighted_layers(place: ModuleFolder, hidden_states: bool) -> Mix:
    """WeightedLayerPooling: the mean of the layers from one on, by their weights."""
    if not hidden_states:
        raise Problem(
            f"{place.folder} weights the layers, and the model's config.json does not hand them on: set "
            '"output_hidden_states": true there, or leave the module out of modules.json'
        )
    config = place.config()
    start, layers = (config.get(key, usual) for key, usual in (("layer_start", 4), ("num_hidden_layers", 12)))
    if type(start) is not int or type(layers) is not int or not 0 <= start <= layers:
        raise Problem(f"{place.folder / CONFIG}: layer_start is {start!r} of {layers!r} layers. {AGAIN}")
    weights = place.weights({"layer_weights": (layers + 1 - start,)})["layer_weights"]
    return Mix((*[0.0] * start, *(weights / weights.sum()).tolist()))


def linear_of(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    with torch.device("meta"):
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    linear.weight = frozen(weight)
    if bias is not None:
        linear.bias = frozen(bias)
    return linear


def frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def size_in(config: Mapping[str, Any], key: str, place: ModuleFolder) -> int:
    size = config.get(key)
    if type(size) is not int or size < 1:
        raise Problem(f"{place.folder / CONFIG}: {key} is {size!r}, which is no size. {AGAIN}")
    return size


def features_in(config: Mapping[str, Any], place: ModuleFolder) -> tuple[str, str]:
    """Which feature a module reads, and which it writes."""
    source = config.get("module_input_name", SENTENCE)
    target = config.get("module_output_name") or source
    for name in (source, target):
        if name not in (TOKENS, SENTENCE):
            raise Problem(f"{place.folder / CONFIG} names the feature {name!r}; there are: {TOKENS}, {SENTENCE}")
    return source, target


def activation_in(config: Mapping[str, Any], place: ModuleFolder, key: str = "activation_function") -> str:
    return activation_name(config.get(key, "torch.nn.modules.activation.Tanh"), f"{place.folder / CONFIG}: {key}")


def activation_name(path: object, place: str) -> str:
    """The activation that a dotted name of torch's means, by its own name; it is looked up, not imported."""
    name = str(path).rsplit(".", 1)[-1]
    if not str(path).startswith("torch.nn.") or name not in ACTIVATIONS:
        raise Problem(f"{place} is {path!r}; of torch.nn there can be: {', '.join(ACTIVATIONS)}")
    return name
