"""A checkpoint's names: one table of (ours, theirs), read in either direction.

Names are module names.  `{i}` stands for a layer's number, `{rest}` for whatever follows in a family of our own, whose
names are ours; what follows a name (.weight, .bias) comes along by itself.
Several of ours may be one of theirs, which holds them one below the other; and a third column may tell how a tensor of
theirs is made ours, by a change that undoes itself.
Every tensor is taken by exactly one row, and one that no row takes is an error, never silence.  A folder whose
config.json has fields of our own may hold tensors that the published form has no name for, under ours (`OWN`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.errors import Problem

OWN = "regard."  # before our name of a tensor that the published form has no name for
OLD = {".gamma": ".weight", ".beta": ".bias"}  # what the first published files call a norm's numbers
MOST = 8  # names that are listed
LEAVE_OUT = (
    "Tensors are left out by name: regard convert MODEL NEW_FOLDER --ignore-tensors PATTERN, or load(ignore=[PATTERN])."
)
Change = Callable[[Tensor], Tensor]


def transposed(tensor: Tensor) -> Tensor:
    """What some files hold with rows and columns exchanged; a bias stays as it is."""
    return tensor.T.contiguous() if tensor.dim() == 2 else tensor


@dataclass(frozen=True)
class Rules:
    rows: tuple[tuple[Any, ...], ...]  # our name or names, their name; and the change, if there is one
    tied: Mapping[str, str] = field(default_factory=dict)  # their second name of a tensor -> its first
    ignored: tuple[str, ...] = ()  # theirs that are no weights: tables of constants in older files

    def __add__(self, other: Rules) -> Rules:
        return Rules(self.rows + other.rows, {**self.tied, **other.tied}, self.ignored + other.ignored)

    def under(self, prefix: str) -> Rules:
        """The same where their names begin with a prefix."""
        tied = {prefix + second: prefix + first for second, first in self.tied.items()}
        ignored = tuple(prefix + name for name in self.ignored)
        return Rules(tuple((ours, prefix + theirs, *change) for ours, theirs, *change in self.rows), tied, ignored)

    def load(self, theirs: Mapping[str, Tensor], place: object) -> dict[str, Tensor]:
        """Their tensors by our names."""
        constants = self.constants(theirs)
        own = {name.removeprefix(OWN): tensor for name, tensor in theirs.items() if name.startswith(OWN)}
        others = theirs.keys() - constants.keys() - {OWN + name for name in own}
        named = {_renewed(name): tensor for name, tensor in theirs.items() if name in others}
        twice = sorted(name for name in theirs if name != _renewed(name) in theirs)
        if twice:
            raise Problem(f"{place}: {twice[0]} is there by its new name too, {_renewed(twice[0])}")
        for second, first in self.tied.items():
            if second in named and not torch.equal(named.pop(second), named.get(first, torch.empty(0))):
                raise Problem(f"{place}: {second} differs from {first}, to which it should be tied")
        rows = [(_pattern(row.theirs), row) for row in map(_Row.of, self.rows)]
        taken = {name: _taken(name, rows) for name in named}
        _check_known(taken, place, f" {LEAVE_OUT}")
        loaded = {
            _filled(ours, match): part
            for name, (match, row) in taken.items()
            for ours, part in zip(row.ours, row.parted(named[name]), strict=True)
        }
        if double := sorted(own.keys() & loaded.keys()):
            raise Problem(f"{place}: {OWN}{double[0]} is there by its published name too")
        return loaded | own

    def load_known(self, theirs: Mapping[str, Tensor]) -> tuple[dict[str, tuple[str, Tensor]], list[str]]:
        """By our names, those of their tensors that have one, each with its name in the file; and names of the rest."""
        others = {*self.constants(theirs), *self.tied}
        named = {name: tensor for name, tensor in theirs.items() if name not in others}
        rows = [(_pattern(row.theirs), row) for row in map(_Row.of, self.rows)]
        taken = {name: _taken(_renewed(name), rows) for name in named}
        known = {
            _filled(ours, how[0]): (name, part)
            for name, how in taken.items() if how
            for ours, part in zip(how[1].ours, how[1].parted(named[name]), strict=True)
        }  # fmt: skip
        return known, [name for name, how in taken.items() if not how]

    def their_names(self, ours: Iterable[str]) -> list[str]:
        """What tensors of ours are called in their files, each name once."""
        rows = [(_pattern(name), row) for row in map(_Row.of, self.rows) for name in row.ours]
        taken = [(name, _taken(name, rows)) for name in ours]
        return list(dict.fromkeys(_filled(how[1].theirs, how[0]) if how else name for name, how in taken))

    def save(self, ours: Mapping[str, Tensor], *, own_names: bool = False) -> dict[str, Tensor]:
        """Our tensors by their names; with `own_names`, those that they have no name for by ours."""
        rows = [(_pattern(name), row) for row in map(_Row.of, self.rows) for name in row.ours]
        own = {name for name in ours if own_names and not any(pattern.fullmatch(name) for pattern, _ in rows)}
        taken = {name: _taken(name, rows) for name in ours if name not in own}
        _check_known(taken, "the model")
        parts = {
            _filled(row.theirs, match): (row, [_filled(name, match) for name in row.ours])
            for match, row in taken.values()
        }
        for theirs, (_, names) in parts.items():
            if missing := [name for name in names if name not in ours]:
                raise Problem(f"the model: {theirs} cannot be written without {', '.join(missing)}")
        named = {theirs: row.joined([ours[name] for name in names]) for theirs, (row, names) in parts.items()}
        return named | {OWN + name: ours[name] for name in sorted(own)}

    def constants(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those of their tensors that are no weights."""
        patterns = [_pattern(name, leaves="") for name in self.ignored]
        return {name: tensor for name, tensor in theirs.items() if any(one.fullmatch(name) for one in patterns)}


@dataclass(frozen=True)
class _Row:
    """A row of the table: parts of ours that are one tensor of theirs, most often one."""

    ours: tuple[str, ...]
    theirs: str
    change: Change | None = None

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> _Row:
        ours, *rest = row
        return cls((ours,) if isinstance(ours, str) else ours, *rest)

    def parted(self, tensor: Tensor) -> tuple[Tensor, ...]:
        tensor = self.change(tensor) if self.change else tensor
        count = len(self.ours)
        # what does not divide, or is a mere number, is of a wrong shape, and told as such when it meets the model
        return (tensor,) * count if count == 1 or not tensor.dim() else tensor.tensor_split(count)

    def joined(self, parts: list[Tensor]) -> Tensor:
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self.change(tensor) if self.change else tensor


def _renewed(name: str) -> str:
    ending = "." + name.rpartition(".")[2]
    return name.removesuffix(ending) + OLD[ending] if ending in OLD else name


def _taken(name: str, rows: list[tuple[re.Pattern[str], _Row]]) -> Any:
    """The one row that takes a name, and how; None if no row does, or two do."""
    found = [(match, row) for pattern, row in rows if (match := pattern.fullmatch(name))]
    return found[0] if len(found) == 1 else None


def _check_known(taken: Mapping[str, object], place: object, remedy: str = "") -> None:
    unknown = sorted(name for name, how in taken.items() if not how)
    if unknown:
        more = f" and {len(unknown) - MOST} more" if len(unknown) > MOST else ""
        raise Problem(f"{place}: no place for {', '.join(unknown[:MOST])}{more}.{remedy}")


def _filled(name: str, match: re.Match[str]) -> str:
    for part in ("i", "rest"):
        name = name.replace(f"{{{part}}}", match.groupdict().get(part) or "")
    return name + match["leaf"]


def _pattern(name: str, leaves: str = r"\.weight|\.bias|") -> re.Pattern[str]:
    part = re.escape(name).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{rest\}", r"(?P<rest>.+?)")
    return re.compile(f"{part}(?P<leaf>{leaves})")
