"""AdamW, how its learning rate rises and falls, and how it differs from part to part of a model, and by their size."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from regard.errors import UsageProblem
from regard.training.settings import OptimizerConfig

RATIO = 32  # of the highest slanted rate to the lowest
SMALLEST = 1e-3  # what numbers that begin with nothing are taken for, where rates are relative


def rate_at(step: int, steps: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, the first being step 1, out of `steps`."""
    if config.schedule == "inverse-square-root":  # Vaswani et al. 2017, scaled so that the peak is `rate`
        peak = max(config.warmup, 1)
        return config.rate * min(step / peak, math.sqrt(peak / step))
    if config.schedule == "slanted":  # Howard and Ruder 2018: `warmup` is their cut, its share of the steps cut_frac
        down = 1 - (step - config.warmup) / max(steps - config.warmup, 1)
        share = step / config.warmup if step < config.warmup else down
        return config.rate * (1 + share * (RATIO - 1)) / RATIO
    if step <= config.warmup:
        return config.rate * step / config.warmup
    done = (step - 1 - config.warmup) / max(steps - config.warmup, 1)  # from 0 to just below 1: no step is wasted
    if config.schedule == "linear":
        return config.rate * (1 - done)
    if config.schedule == "cosine":
        return config.rate * (1 + math.cos(math.pi * done)) / 2
    return config.rate


def adamw(module: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Matrices decay, embeddings among them; vectors (norms, biases) do not.  Where nothing does they are one group,
    whose step is half as many kernels.

    A group says its `share` of the rate, and the step it `begins` at: both are by how many parts lie above it, and the
    share by the size of what begins.
    """
    groups: list[dict[str, Any]] = []
    for above, part in enumerate(reversed(by_depth(module, config))):
        for size, parameters in by_size(part, config).items():
            place = {"share": size * config.discriminative**-above, "begins": config.unfreeze * above}
            matrices, vectors = ([p for p in parameters if (p.dim() > 1) == wide] for wide in (True, False))
            kinds = [(matrices, config.weight_decay), (vectors, 0.0)] if config.weight_decay else [(parameters, 0.0)]
            groups += [{"params": some, "weight_decay": decay, **place} for some, decay in kinds if some]
    return torch.optim.AdamW(groups, lr=config.rate, betas=config.betas, eps=config.epsilon, fused=True)


def by_depth(module: nn.Module, config: OptimizerConfig) -> list[list[nn.Parameter]]:
    """What learns, by the parts of the model, the lowest first; all as one where no part differs from another.

    `module.model.parts()` are modules from the input up.  A parameter in two of them (a tied table) is of the lower;
    one in none (what an objective owns) is of the highest, with the heads.
    """
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if config.discriminative == 1 and not config.unfreeze:
        return [trained]
    model: Any = getattr(module, "model", None)
    if not hasattr(model, "parts"):
        raise UsageProblem(
            f"discriminative={config.discriminative}, unfreeze={config.unfreeze}: {type(model).__name__} does not tell "
            "its parts by depth; leave both out"
        )
    parts = model.parts()
    depth: dict[nn.Parameter, int] = {}
    for number, part in enumerate(parts):
        for parameter in part.parameters():
            depth.setdefault(parameter, number)
    top = len(parts) - 1
    groups = ([p for p in trained if depth.get(p, top) == number] for number in range(len(parts)))
    return [group for group in groups if group]


def by_size(parameters: list[nn.Parameter], config: OptimizerConfig) -> dict[float, list[nn.Parameter]]:
    """What learns, by how large it is; all as one where rates are not relative."""
    if not config.relative:
        return {1.0: parameters}
    sizes: dict[float, list[nn.Parameter]] = {}
    for parameter in parameters:
        sizes.setdefault(size_of(parameter), []).append(parameter)
    return sizes


@torch.no_grad()
def size_of(numbers: nn.Parameter) -> float:
    """The root of the mean square, to the nearest power of two: every size is a group, and a group is a launch."""
    size = numbers.float().square().mean().sqrt().item()
    return 2.0 ** round(math.log2(max(size, SMALLEST)))
