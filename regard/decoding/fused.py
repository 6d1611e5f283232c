"""Sums and norms of a model that writes, as one kernel on a GPU: the sum after a layer brings with it what the next
layer reads.  Elsewhere they are what they were."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kernels import kernels_run, power_of_two
from regard.layers.residual import Residual
from regard.layers.stack import Stack

WIDEST = 8192  # numbers of a row, which a program holds in registers


def fuse(model: nn.Module) -> None:
    """In place: the layer norms of its stacks, and the sums that they are of."""
    for stack in [part for part in model.modules() if isinstance(part, Stack)]:
        for block in stack.blocks:
            for name in ("attention_residual", "cross_residual", "feed_residual"):
                residual: Any = getattr(block, name)
                if residual is not None and type(residual.norm) is nn.LayerNorm:
                    setattr(block, name, FusedResidual(FusedNorm(residual.norm), residual.norm_first))
        if type(stack.norm) is nn.LayerNorm:
            stack.norm = FusedNorm(stack.norm)
        link(stack)


def link(stack: Stack) -> None:
    """Tell each sum which norm follows, where norms come first and every layer has a block of its own."""
    blocks: Any = [stack.blocks[number] for number in stack.order]
    if len(set(stack.order)) < len(blocks):
        return
    parts = [part for block in blocks for part in (block.attention_residual, block.cross_residual, block.feed_residual)]
    residuals = [part for part in parts if isinstance(part, FusedResidual) and part.norm_first]
    norms = [*(residual.norm for residual in residuals[1:]), stack.norm]
    for residual, norm in zip(residuals, norms, strict=False):
        residual.following = [norm] if isinstance(norm, FusedNorm) else []


class FusedNorm(nn.Module):
    def __init__(self, norm: nn.LayerNorm):
        super().__init__()
        self.weight, self.bias, self.epsilon = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, W)
        by, normed = getattr(x, "normed", (None, x))
        return normed if by is self else self.of(x)[1]

    def of(self, x: Tensor, said: Tensor | None = None) -> tuple[Tensor, Tensor]:  # (N, W) each
        """A sum, and its norm."""
        if not kernels_run(x) or x.shape[-1] > WIDEST:
            total = x if said is None else x + said
            return total, F.layer_norm(total, total.shape[-1:], self.weight, self.bias, self.epsilon)
        from regard.decoding.fused_kernel import add_and_norm

        x, adds, width = x.contiguous(), said is not None, x.shape[-1]
        total, normed = torch.empty_like(x) if adds else x, torch.empty_like(x)
        bias = self.weight if self.bias is None else self.bias
        add_and_norm[(len(x),)](
            x, x if said is None else said.contiguous(), self.weight, bias, total, normed, self.epsilon,
            WIDTH=width, WIDE=power_of_two(width), ADDS=adds, SHIFTS=self.bias is not None, num_warps=4,
        )  # fmt: skip
        return total, normed


class FusedResidual(Residual):
    """For a model that writes: nothing is dropped."""

    norm: FusedNorm

    def __init__(self, norm: FusedNorm, norm_first: bool):
        super().__init__(norm, 0.0, norm_first=norm_first)
        self.following: list[FusedNorm] = []  # the norm that reads the sum, which is no part of this

    def after(self, x: Tensor, said: Tensor) -> Tensor:
        if not self.norm_first:
            return self.norm.of(x, said)[1]
        if not self.following:
            return x + said
        total, normed = self.following[0].of(x, said)
        total.normed = self.following[0], normed  # type: ignore[attr-defined]
        return total
