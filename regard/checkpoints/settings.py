"""A config.json's keys: one table of (our dotted field, their key), read in either direction; and one key of our own,
for the fields of a config that the published form has no key for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

from regard.config import change, different_fields, nested, to_dict, update
from regard.errors import Problem, UsageProblem

C = TypeVar("C")
OWN = "regard"  # the key of config.json that holds what the published form has no key for: dotted field -> value
OLD_KEYS = {"regard_residual_scores": "stack.residual_scores"}  # keys that earlier versions wrote for single fields
MODEL_TYPE, ARCHITECTURES = "model_type", "architectures"
# settings that would change what any model computes, and the one value of each that is understood
ONLY: dict[str, Any] = {
    "quantization_config": None,
    "pruned_heads": {},
    "add_cross_attention": False,
    "rope_scaling": None,  # and what else folders with code of their own say under the name of a known family
    "rope_parameters": None,
    "rope_theta": None,
    "rotary_emb_fraction": 0.0,
    "alibi": False,
    "alibi_starting_size": None,
    "sliding_window": None,
    "feed_forward_type": "original",
    "use_rms_norm": False,
    "parallel_block": False,
}
TYPE_MARK, ARCHITECTURE_MARK = "regard-", "Regard"  # no other library knows a model type or an architecture like this


@dataclass(frozen=True)
class Settings:
    """Their keys that are not in the table are theirs alone: kept as they are, and never acted on."""

    pairs: tuple[tuple[str, str], ...]  # our dotted field, their key; several of ours may have one key
    words: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)  # their key -> their value -> ours

    def load(self, config: C, theirs: Mapping[str, Any]) -> C:
        """A copy of config with what their file says."""
        for path, key in self.pairs:
            if theirs.get(key) is not None:
                config = change(config, path, self._ours(key, theirs[key]))
        return config

    def save(self, config: Any, theirs: Mapping[str, Any] = {}) -> dict[str, Any]:
        """Their file with what config says; what says it already, perhaps in another word, stays as it is."""
        said = {key: value_at(config, path) for path, key in reversed(self.pairs)}  # fields that share a key: the first
        changed = {key: value for key, value in said.items() if self._ours(key, theirs.get(key)) != value}
        return {**theirs, **{key: self._theirs(key, value) for key, value in changed.items()}}

    def _ours(self, key: str, value: Any) -> Any:
        return next((ours for word, ours in self.words.get(key, {}).items() if word == value), value)

    def _theirs(self, key: str, value: Any) -> Any:
        return next((word for word, ours in self.words.get(key, {}).items() if ours == value), value)


@dataclass(frozen=True)
class OwnSettings:
    """A family that only regard has: its config.json holds the config as it is."""

    def load(self, config: C, theirs: Mapping[str, Any]) -> C:
        return update(config, {name: theirs[name] for name in to_dict(config) if name in theirs})

    def save(self, config: Any, theirs: Mapping[str, Any] = {}) -> dict[str, Any]:
        return {**theirs, **to_dict(config)}


def value_at(config: Any, path: str) -> Any:
    get: Callable[[Any, str], Any] = getattr
    return reduce(get, path.split("."), config)


def with_own_fields(config: Any, said: dict[str, Any], load: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A config.json that `load` turns into this very config: what was `said` by published keys, and under a key of our
    own every field that those would lose.  Where such a field changes what a model computes, the model type and the
    architectures are marked, so that no other library takes the folder for the published model."""
    lost = different_fields(config, load(json.loads(json.dumps(said))))
    whole = {**said, OWN: lost} if lost else said
    check_whole(config, load(json.loads(json.dumps(whole))))
    return marked(whole) if any(map(changes_outputs, lost)) else whole


def check_whole(config: Any, loaded: Any) -> None:
    """Refuse a config that its folder would not give back."""
    if lost := different_fields(config, loaded):
        named = ", ".join(f"{path}={value}" for path, value in lost.items())
        raise Problem(f"{named}: a folder of this model would not keep that; leave it out of --set")


def own_fields(config: C, theirs: Mapping[str, Any]) -> C:
    """A copy of config with the fields that stand in a config.json under keys of our own."""
    fields = theirs.get(OWN, {})
    if not isinstance(fields, dict):
        raise UsageProblem(f"{OWN} is {fields!r}: it should be an object of fields and their values")
    old = {path: theirs[key] for key, path in OLD_KEYS.items() if theirs.get(key) is not None}
    return update(config, nested({**old, **fields}))


def without_own(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json without the keys of our own: the config of the model has these fields."""
    return {key: value for key, value in theirs.items() if key != OWN and key not in OLD_KEYS}


def check_plain(theirs: Mapping[str, Any], only: Mapping[str, Any], place: object, file: str = "config.json") -> None:
    """Refuse settings that would change what a model computes, but for the one value that is understood: those of its
    family, and those of any."""
    for key, plain in {**ONLY, **only}.items():
        if theirs.get(key) not in (None, plain):
            raise Problem(f"{place}: {key} is {theirs[key]!r} in {file}, and only {plain!r} can be read here")


def changes_outputs(path: str) -> bool:
    """Whether a field matters outside of training: dropout does not."""
    return not path.endswith("dropout")


def is_marked(theirs: Mapping[str, Any]) -> bool:
    """Whether a config.json says that no other library can read its folder."""
    return str(theirs.get(MODEL_TYPE, "")).startswith(TYPE_MARK)


def marked(theirs: dict[str, Any]) -> dict[str, Any]:
    architectures = [f"{ARCHITECTURE_MARK}{name}" for name in theirs.get(ARCHITECTURES) or ()]
    return {**theirs, MODEL_TYPE: f"{TYPE_MARK}{theirs[MODEL_TYPE]}", ARCHITECTURES: architectures}


def unmarked(theirs: dict[str, Any]) -> dict[str, Any]:
    """A config.json with the published names of its model type and its architectures."""
    if not is_marked(theirs):
        return theirs
    names = theirs.get(ARCHITECTURES)
    plain = [str(name).removeprefix(ARCHITECTURE_MARK) for name in names] if isinstance(names, list) else names
    return {**theirs, MODEL_TYPE: str(theirs[MODEL_TYPE]).removeprefix(TYPE_MARK), ARCHITECTURES: plain}
