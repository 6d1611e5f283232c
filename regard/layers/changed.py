"""Whether weights are what they were, for whoever keeps a copy of them in another form.

torch counts how often a tensor was changed, but not the steps of a fused optimizer: so these are counted here, for all
optimizers of the process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook


def mark_of(weight: Tensor) -> tuple[int, int]:
    """As long as this is the same, so are its numbers.  What was made in inference mode does not learn."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def marks_of(model: nn.Module) -> list[tuple[int, int]]:
    return [mark_of(weight) for weight in weights_in(model)]


def weights_in(model: nn.Module) -> list[Tensor]:
    """All parameters, those that are shared more than once.  torch's own way to them takes several times as long, for
    it makes their names."""
    found: list[Tensor | None] = []
    parts: list[nn.Module | None] = [model]
    while parts:
        if (part := parts.pop()) is not None:
            found += part._parameters.values()
            parts += part._modules.values()
    return [weight for weight in found if weight is not None]


def count(optimizer: torch.optim.Optimizer, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    increment_version([weight for group in optimizer.param_groups if group.get("fused") for weight in group["params"]])


register_optimizer_step_post_hook(count)
