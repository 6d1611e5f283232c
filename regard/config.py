"""Configs are frozen dataclasses that nest as the modules do.  This is all the machinery they need."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from regard.errors import Problem, UsageProblem

C = TypeVar("C")
field_types: Callable[[type], dict[str, Any]] = cache(typing.get_type_hints)  # annotations are strings: read once


def to_dict(config: Any) -> dict[str, Any]:
    return asdict(config)


def from_dict(kind: type[C], data: dict[str, Any], place: str = "") -> C:
    """The config that to_dict wrote.  A field that does not exist, or a value of another type, is an error."""
    if not isinstance(data, dict):
        raise Problem(f"{place or kind.__name__}: expected an object with fields, found {data!r}")
    hints = field_types(kind)
    values = {}
    for name, value in data.items():
        where = f"{place}.{name}" if place else name
        known_field(kind, name, where)
        values[name] = checked(hints[name], value, where)
    return kind(**values)


def change(config: C, path: str, value: Any) -> C:
    """A copy of config with one dotted field changed."""
    name, *inner = path.split(".")
    for part in reversed(inner):
        value = {part: value}
    return update(config, {name: value})


def update(config: C, changes: dict[str, Any], place: str = "") -> C:
    """A copy of config with some fields changed; a dict changes some fields of the config it meets."""
    hints = field_types(type(config))
    values = {}
    for name, value in changes.items():
        where = f"{place}.{name}" if place else name
        known_field(type(config), name, where)
        inner = getattr(config, name)
        if isinstance(value, dict) and is_dataclass(inner):
            values[name] = update(inner, value, where)
        else:
            values[name] = checked(hints[name], value, where)
    return replace(config, **values)  # type: ignore[type-var]


def different_fields(config: Any, other: Any, place: str = "") -> dict[str, Any]:
    """The fields of config, dotted, in which another config of its kind differs; with config's values."""
    found: dict[str, Any] = {}
    for one in fields(config):
        value, theirs, where = getattr(config, one.name), getattr(other, one.name), f"{place}{one.name}"
        if is_dataclass(value) and type(value) is type(theirs):
            found |= different_fields(value, theirs, f"{where}.")
        elif value != theirs:
            found[where] = to_dict(value) if is_dataclass(value) else value
    return found


def nested(changes: typing.Mapping[str, Any]) -> dict[str, Any]:
    """Changes by dotted fields, as `update` takes them."""
    tree: dict[str, Any] = {}
    for path, value in changes.items():
        *parents, name = path.split(".")
        inner = tree
        for part in parents:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise UsageProblem(f"{path}: {part} has a value already, and no fields of its own")
        inner[name] = value
    return tree


def settings_of(text: str) -> tuple[str, Any]:
    """What `--set path=value` says; a value that is not JSON is a plain string."""
    path, equals, value = text.partition("=")
    if not equals:
        raise UsageProblem(f"--set {text}: expected PATH=VALUE, such as encoder.layers=4")
    try:
        return path.strip(), json.loads(value)
    except ValueError:  # not JSON, or a number too long to be one
        return path.strip(), value


def known_field(kind: type, name: str, where: str) -> None:
    names = [f.name for f in fields(kind)]
    if name not in names:
        raise UsageProblem(f"{where}: {kind.__name__} has no field {name!r}; {did_you_mean(name, names)}")


def did_you_mean(name: str, names: typing.Iterable[str]) -> str:
    known = sorted(names)
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"


def checked(kind: Any, value: Any, where: str) -> Any:
    """value, if it is of the annotated kind (a whole number will do for a float, a list for a tuple)."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        return value if isinstance(value, kind) else from_dict(kind, value, where)  # type: ignore[arg-type]
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return checked(next(a for a in arguments if a is not type(None)), value, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise UsageProblem(f"{where}: {value!r} is not one of {', '.join(map(str, arguments))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UsageProblem(f"{where}: expected a list, found {value!r}")
        return tuple(checked(arguments[0], item, where) for item in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        raise UsageProblem(f"{where}.{next(iter(value), '')}: {where} has no fields of its own")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageProblem(f"{where}: expected {kind.__name__}, found {value!r}")
    return value
