"""A checkpoint's names: one table of (ours, theirs), read in either direction.

Names are module names.  `{i}` stands for a layer's number, `{rest}` for whatever follows in a family of our own, whose
names are ours; what follows a name (.weight, .bias) comes along by itself.
Every tensor is taken by exactly one row, and one that no row takes is an error, never silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import Problem

OLD = {".gamma": ".weight", ".beta": ".bias"}  # what the first published files call a norm's numbers
MOST = 8  # names that are listed


@dataclass(frozen=True)
class Rules:
    rows: tuple[tuple[str, str], ...]  # our name, their name
    tied: Mapping[str, str] = field(default_factory=dict)  # their second name of a tensor -> its first
    ignored: tuple[str, ...] = ()  # theirs that are no weights: tables of constants in older files

    def __add__(self, other: Rules) -> Rules:
        return Rules(self.rows + other.rows, {**self.tied, **other.tied}, self.ignored + other.ignored)

    def under(self, prefix: str) -> Rules:
        """The same where their names begin with a prefix."""
        tied = {prefix + second: prefix + first for second, first in self.tied.items()}
        ignored = tuple(prefix + name for name in self.ignored)
        return Rules(tuple((ours, prefix + theirs) for ours, theirs in self.rows), tied, ignored)

    def load(self, theirs: Mapping[str, Tensor], place: object) -> dict[str, Tensor]:
        """Their tensors by our names."""
        named = {_renewed(name): tensor for name, tensor in theirs.items() if name not in self.ignored}
        twice = sorted(name for name in theirs if name != _renewed(name) in theirs)
        if twice:
            raise Problem(f"{place}: {twice[0]} is there by its new name too, {_renewed(twice[0])}")
        for second, first in self.tied.items():
            if second in named and not torch.equal(named.pop(second), named.get(first, torch.empty(0))):
                raise Problem(f"{place}: {second} differs from {first}, to which it should be tied")
        return _renamed(named, [(b, a) for a, b in self.rows], place)

    def save(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors by their names."""
        return _renamed(ours, self.rows, "the model")


def _renewed(name: str) -> str:
    ending = "." + name.rpartition(".")[2]
    return name.removesuffix(ending) + OLD[ending] if ending in OLD else name


def _renamed(tensors: Mapping[str, Tensor], rows, place: object) -> dict[str, Tensor]:
    patterns = [(_pattern(here), there) for here, there in rows]
    found, unknown = {}, []
    for name, tensor in tensors.items():
        taken = [(match, there) for pattern, there in patterns if (match := pattern.fullmatch(name))]
        if len(taken) == 1:
            match, there = taken[0]
            for part in ("i", "rest"):
                there = there.replace(f"{{{part}}}", match.groupdict().get(part) or "")
            found[there + match["leaf"]] = tensor
        else:
            unknown.append(name)
    if unknown:
        more = f" and {len(unknown) - MOST} more" if len(unknown) > MOST else ""
        raise Problem(f"{place}: no place for {', '.join(sorted(unknown)[:MOST])}{more}")
    return found


def _pattern(name: str) -> re.Pattern[str]:
    part = re.escape(name).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{rest\}", r"(?P<rest>.+?)")
    return re.compile(part + r"(?P<leaf>\.weight|\.bias|)")
