"""AdamW, and how its learning rate rises and falls."""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.training.settings import OptimizerConfig


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
