"""A config.json's keys: one table of (our dotted field, their key), read in either direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

from regard.config import change, to_dict, update

C = TypeVar("C")


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
        said = [(key, value_at(config, path)) for path, key in self.pairs]
        changed = {key: value for key, value in said if self._ours(key, theirs.get(key)) != value}
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
