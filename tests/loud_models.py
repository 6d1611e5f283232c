"""Models whose numbers are large enough that what they say depends on what they read."""

from __future__ import annotations

import torch
from torch import nn


def loud(model: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.3)
    return model.eval()
