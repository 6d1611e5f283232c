"""A long tensor a piece at a time, so that what is made of it on the way never lies there whole."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

TOGETHER = 2**16  # tokens


def in_pieces(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:  # (N, ...) -> (N, ...)
    """function(x), which makes each token by itself.  On the way back pieces are made again, one after the other."""
    pieces = x.split(TOGETHER)
    if len(pieces) < 2:
        return function(x)
    if not torch.is_grad_enabled():
        return torch.cat([function(piece) for piece in pieces])
    return torch.cat([checkpoint(function, piece, use_reentrant=False) for piece in pieces])
