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
    def __init__(
        self, width: int, inner: int, activation: str, dropout: float, *, gated: bool = False, bias: bool = True
    ):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner, bias), nn.Linear(inner, width, bias)
        self.gate = nn.Linear(width, inner, bias) if gated else None
        self.activation, self.dropout = ACTIVATIONS[activation], nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, W)
        inner = self.activation(self.up(x))
        return self.down(self.dropout(inner if self.gate is None else inner * self.gate(x)))
