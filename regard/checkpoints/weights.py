"""A module's tensors by name, every one accounted for on the way in and out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import Problem

MOST = 8  # faults that are listed


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's tensors by name; one that has several names (tied embeddings) by its first alone."""
    state = module.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(state.items())}
    return {name: tensor.detach() for name, tensor in state.items() if first[id(tensor)] == name}


@torch.no_grad()
def set_weights(module: nn.Module, tensors: Mapping[str, Tensor], place: Path) -> None:
    check_weights(module, tensors, place)
    for name, tensor in weights_of(module).items():
        tensor.copy_(tensors[name])
    if broken := not_finite(tensors):
        warnings.warn(f"{place}: not all numbers are finite in {', '.join(broken)}", stacklevel=2)


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of tensors that hold NaN or infinity: some of them, if there are many."""
    return [name for name, tensor in tensors.items() if not tensor.isfinite().all()][:MOST]


def check_weights(module: nn.Module, tensors: Mapping[str, Tensor], place: Path) -> None:
    """Raise a Problem that lists what is missing, extra or of another shape."""
    own = weights_of(module)
    faults = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    faults += [f"{name} is not in this model" for name in tensors.keys() - own.keys()]
    shapes = {name: (list(tensors[name].shape), list(own[name].shape)) for name in own.keys() & tensors.keys()}
    faults += [f"{name} is {there}, here {here}" for name, (there, here) in shapes.items() if there != here]
    kinds = {name: tensors[name].dtype for name in shapes}
    whole = [name for name in shapes if kinds[name].is_floating_point != own[name].dtype.is_floating_point]
    faults += [f"{name} holds {kinds[name]}, here {own[name].dtype}" for name in whole]
    if faults:
        more = f" and {len(faults) - MOST} more" if len(faults) > MOST else ""
        raise Problem(f"{place} is of another model: {'; '.join(sorted(faults)[:MOST])}{more}")
