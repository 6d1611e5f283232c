"""What a device can compute with."""

from __future__ import annotations

import torch


def widest_float(device: torch.device) -> torch.dtype:
    """The type for long sums: double precision, which Apple's GPUs (mps) do not have."""
    return torch.float32 if device.type == "mps" else torch.float64
