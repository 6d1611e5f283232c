"""Sound as tokens (wav2vec, Schneider et al. 2019): convolutions over the wave make frames of it, and another tells
each frame its place by its neighbours.

Rows lie end to end here too.  Each begins where all strides divide, so that one convolution over all of them makes the
frames that each alone would have; the few that lie across two rows are left out.
Letters: B rows, S samples, N frames of all rows together, C channels, W width, K size of a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.sizes import DEEPEST
from regard.rows import Rows

Activation = Literal["relu", "gelu", "gelu-tanh", "swish", "tanh"]
LARGEST = 10**5  # of a layer's sizes


@dataclass(frozen=True)
class WavesConfig:
    widths: tuple[int, ...] = (512,) * 7  # channels of each layer
    kernels: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    strides: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    norm: Literal["group", "layer"] = (
        "group"  # each channel over time, behind the first layer; or each frame, behind all
    )
    bias: bool = False
    activation: Activation = "gelu"

    def __post_init__(self) -> None:
        for name in ("widths", "kernels", "strides"):
            sizes = getattr(self, name)
            if not 1 <= len(sizes) <= DEEPEST or min(sizes) < 1 or max(sizes) > LARGEST:
                raise UsageProblem(f"{name}={sizes} in WavesConfig: give each layer 1 to {LARGEST:,}")

    @cached_property
    def stride(self) -> int:
        """Samples from one frame to the next."""
        return math.prod(self.strides)

    @cached_property
    def reach(self) -> int:
        """Samples that a frame sees: the fewest that a row may have."""
        reach = 1
        for kernel, stride in zip(reversed(self.kernels), reversed(self.strides), strict=True):
            reach = (reach - 1) * stride + kernel
        return reach

    def frames(self, samples: int) -> int:
        """The frames of so many samples."""
        return max((samples - self.reach) // self.stride + 1, 0)


class Waves(nn.Module):
    """Convolutions over waves, without padding inside or between them."""

    def __init__(self, config: WavesConfig):
        super().__init__()
        if not len(config.widths) == len(config.kernels) == len(config.strides):  # they are set one after the other
            told = f"widths={config.widths}, kernels={config.kernels}, strides={config.strides}"
            raise UsageProblem(f"{told}: give each layer one of each")
        self.config = config
        ends = zip((1, *config.widths), config.widths, strict=False)
        sizes = zip(ends, config.kernels, config.strides, strict=True)
        self.layers = nn.ModuleList(nn.Conv1d(*end, kernel, stride, bias=config.bias) for end, kernel, stride in sizes)
        normed = config.widths[:1] if config.norm == "group" else config.widths
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in normed)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, wave: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Rows]:  # (S,) -> (N, C)
        """The frames of waves that lie end to end, and the rows they form."""
        stride, rows = self.config.stride, Rows.of([self.config.frames(length) for length in lengths])
        if not lengths or min(lengths) < self.config.reach:
            raise UsageProblem(f"waves of {lengths} samples: each must have {self.config.reach} or more, a frame's")
        x = torch.cat([F.pad(part, (0, -len(part) % stride)) for part in wave.split(list(lengths))])[None]
        for number, layer in enumerate(self.layers):
            x = self.activation(self.normed(number, layer(x), lengths))  # (C, samples / strides so far)
        slots = torch.tensor([-(-length // stride) for length in lengths])  # that a row fills
        index = (slots.cumsum(0) - slots)[rows.row] + rows.at
        return x.T[index.to(x.device, non_blocking=True)], rows.to(x.device)

    def normed(self, number: int, x: Tensor, lengths: Sequence[int]) -> Tensor:  # (C, T) -> (C, T)
        if self.config.norm == "layer":
            return self.norms[number](x.T).T
        return self.normed_over_time(x, lengths) if number == 0 else x

    def normed_over_time(self, x: Tensor, lengths: Sequence[int]) -> Tensor:  # (C, T) -> (C, T)
        """Each channel of each row by itself, as if it were alone; what lies between rows stays as it is."""
        kernel, stride, whole = self.config.kernels[0], self.config.strides[0], self.config.stride
        own = [(length - kernel) // stride + 1 for length in lengths]
        slots = [-(-length // whole) * whole // stride for length in lengths]
        sizes = [size for count, slot in zip(own, slots, strict=True) for size in (count, slot - count)]
        sizes[-1] = x.shape[1] - sum(sizes[:-1])
        norm: Any = self.norms[0]
        parts = list(x.split(sizes, 1))  # rows, and what lies behind each
        parts[::2] = [F.group_norm(part[None], len(x), norm.weight, norm.bias, norm.eps)[0] for part in parts[::2]]
        return torch.cat([part.to(parts[0].dtype) for part in parts], 1)


class Neighbours(nn.Module):
    """Places told by what is around (Mohamed et al., 2019): a wide convolution in groups, whose weights have a length
    for each place of the kernel (weight norm, Salimans and Kingma 2016)."""

    def __init__(self, width: int, kernel: int, groups: int, activation: str):
        super().__init__()
        if groups < 1 or width % groups:
            raise UsageProblem(
                f"width {width} does not divide into around_groups={groups} of a convolution; change one of them"
            )
        self.gain = nn.Parameter(torch.ones(1, 1, kernel))
        self.direction = nn.Parameter(torch.zeros(width, width // groups, kernel))
        self.bias = nn.Parameter(torch.zeros(width))
        self.groups, self.activation = groups, ACTIVATIONS[activation]
        nn.init.normal_(self.direction, std=2 * (kernel * width) ** -0.5)
        self.gain.data.copy_(self.direction.data.norm(dim=(0, 1), keepdim=True))

    def forward(self, x: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (N, W)
        kernel = self.direction.shape[-1]
        gap = kernel // 2  # as far as a frame sees: what is between two rows serves both
        places = torch.arange(rows.total, device=x.device) + rows.row * gap
        wide = x.new_zeros(rows.total + (len(rows) - 1) * gap, x.shape[1]).index_copy(0, places, x)
        weight = self.direction * (self.gain / self.direction.norm(dim=(0, 1), keepdim=True))
        told = F.conv1d(wide.T[None], weight, self.bias, padding=gap, groups=self.groups)[0]  # (W, T + 1 if K is even)
        return self.activation(told.T[places])
