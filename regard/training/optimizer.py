"""AdamW, and how its learning rate rises and falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.errors import UsageProblem

HIGHEST_RATE = 10.0  # beyond it every step is noise


@dataclass(frozen=True)
class OptimizerConfig:
    rate: float = 5e-4  # the peak of the schedule
    schedule: Literal["inverse-square-root", "linear", "cosine", "constant"] = "inverse-square-root"
    warmup: int = 4000  # steps over which the rate rises from nothing to its peak
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    clip: float = 1.0  # the longest gradient taken as it is; 0: any

    def __post_init__(self) -> None:
        if not 0 < self.rate <= HIGHEST_RATE:
            raise UsageProblem(f"rate={self.rate}: a learning rate lies above 0 and at most at {HIGHEST_RATE:g}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageProblem(f"betas={self.betas}: each lies from 0 to below 1")
        if not self.epsilon > 0:
            raise UsageProblem(f"epsilon={self.epsilon}: give a small number above 0, such as 1e-9")
        for name in ("warmup", "weight_decay", "clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 0 (off) or more")


def rate_at(step: int, steps: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, the first being step 1, out of `steps`."""
    if config.schedule == "inverse-square-root":  # Vaswani et al. 2017, scaled so that the peak is `rate`
        peak = max(config.warmup, 1)
        return config.rate * min(step / peak, math.sqrt(peak / step))
    if step <= config.warmup:
        return config.rate * step / config.warmup
    done = (step - 1 - config.warmup) / max(steps - config.warmup, 1)  # from 0 to just below 1: no step is wasted
    if config.schedule == "linear":
        return config.rate * (1 - done)
    if config.schedule == "cosine":
        return config.rate * (1 + math.cos(math.pi * done)) / 2
    return config.rate


def adamw(module: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Matrices decay, embeddings among them; vectors (norms, biases) do not."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.rate, betas=config.betas, eps=config.epsilon, fused=True)
