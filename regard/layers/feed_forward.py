"""The two-layer network every token goes through by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # the approximation of GPT and ALBERT
    "swish": F.silu,
    "tanh": torch.tanh,
}


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: str, dropout: float):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation, self.dropout = ACTIVATIONS[activation], nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, W)
        return self.down(self.dropout(self.activation(self.up(x))))
