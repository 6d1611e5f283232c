"""The norms: LayerNorm (Ba 2016), and the root of the mean square alone (Zhang and Sennrich 2019; T5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import nn

Norm = Literal["layer", "rms"]
NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}
