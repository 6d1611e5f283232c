"""How the tensors of a file differ from those of a model: which are too many, missing, or of another shape or type; and
which are left out by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor

from regard.checkpoints.rules import LEAVE_OUT, Rules
from regard.errors import UsageProblem

SHOWN_NAMES = 6  # of each kind of fault


@dataclass(frozen=True)
class Fit:
    """The faults of a file that was read by one layout, told by the names in the file."""

    extra: tuple[str, ...]
    missing: tuple[str, ...]  # by our names
    misshapen: tuple[str, ...]
    rules: Rules

    @classmethod
    def of(cls, own: Mapping[str, Tensor], rules: Rules, tensors: Mapping[str, Tensor]) -> Fit:
        """Of a model's own tensors, and those of a file."""
        known, extra = rules.load_known(tensors)
        extra += {name: None for ours, (name, _) in known.items() if ours not in own}
        missing = tuple(ours for ours in own if ours not in known)
        misshapen: dict[str, str] = {}  # by their names: several tensors of ours may be one of theirs
        for ours, (name, there) in known.items():
            if ours in own and form(there)[1:] != form(own[ours])[1:] and name not in misshapen:
                misshapen[name] = f"{name} is {form(tensors[name])[0]}, here {ours} is {form(own[ours])[0]}"
        return cls(tuple(sorted(extra)), missing, tuple(misshapen.values()), rules)

    @property
    def faults(self) -> int:
        return len(self.extra) + len(self.missing) + len(self.misshapen)

    def __str__(self) -> str:
        missing = self.rules.their_names(self.missing)
        kinds = {"too many": self.extra, "missing": missing, "of another shape or type": self.misshapen}
        told = [f"{kind} ({len(names)}): {shown(names)}." for kind, names in kinds.items() if names]
        return " ".join([*told, *[LEAVE_OUT] * bool(self.extra)])


def form(tensor: Tensor) -> tuple[str, list[int], bool]:
    """A tensor's shape and dtype in words; and what of them must be the same."""
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{list(tensor.shape)} {kind}", list(tensor.shape), tensor.dtype.is_floating_point


def shown(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_NAMES]) + (", ..." if len(names) > SHOWN_NAMES else "")


def leave_out(tensors: Mapping[str, Tensor], patterns: Sequence[str], place: object) -> dict[str, Tensor]:
    """The tensors whose names match none of these patterns, such as `lm_head.*`."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in tensors):
            raise UsageProblem(f"{place}: no tensor's name matches {pattern!r}; there are: {shown(list(tensors))}")
    return {name: t for name, t in tensors.items() if not any(fnmatchcase(name, pattern) for pattern in patterns)}
