"""The norms: LayerNorm (Ba 2016), and the root of the mean square alone (Zhang and Sennrich 2019; T5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Norm = Literal["layer", "rms"]
NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


def in_precision(x: Tensor) -> Tensor:
    """In the precision that autocast has for products: what norms give it leaves in float32."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
