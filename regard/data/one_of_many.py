"""One change of many for each picture of a batch, as strong as chance will have it: TrivialAugment (Müller and Hutter,
2021), where the pictures lie.

Letters: B pictures, C channels, H height, W width.  Numbers of pixels lie from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.augment import drawn, sampled, tints

LEVELS = 255  # of a pixel
BENT, TINTED, SHADED = 5, 4, 4  # kinds of change: by a matrix; towards another picture; pixel by pixel


@dataclass(frozen=True)
class OneOfMany:
    """Nothing; or turned, slanted or moved; darker, flatter, paler or less sharp, or the reverse; or with fewer shades,
    the brightest inverted, all shades stretched or made equally frequent."""

    degrees: float = 135.0
    slant: float = 1.0
    move: float = 0.5  # of the side
    tint: float = 1.0
    bits: int = 6  # of eight that may be lost
    reach: float = 1.0  # of how far it may be turned, slanted and moved

    def __call__(self, x: Tensor) -> Tensor:  # (B, C, H, W)
        kind = torch.randint(1 + BENT + TINTED + SHADED, (len(x), 1, 1, 1), device=x.device)
        strength = drawn(x)
        either = strength * torch.where(drawn(x) < 0.5, -1.0, 1.0)  # to one side or the other
        bent, tinted = kind - 1, kind - 1 - BENT
        changed = torch.where(
            bent < BENT, self.bent(x, bent, self.reach * either), self.shaded(x, tinted - TINTED, strength)
        )
        changed = torch.where((tinted >= 0) & (tinted < TINTED), self.tinted(x, tinted, either), changed)
        return torch.where(kind == 0, x, changed)

    def bent(self, x: Tensor, kind: Tensor, by: Tensor) -> Tensor:
        turn, across, down, right, low = (torch.where(kind == number, by, 0.0) for number in range(BENT))
        angle = turn * self.degrees * math.pi / 180
        cos, sin = angle.cos(), angle.sin()
        across, down = self.slant * across, self.slant * down
        right, low = 2 * self.move * right, 2 * self.move * low  # of a grid from -1 to 1
        rows = [cos, -sin + across, right, sin + down, cos, low]
        return sampled(x, torch.cat(rows, 1).view(-1, 2, 3), *x.shape[2:])

    def tinted(self, x: Tensor, kind: Tensor, by: Tensor) -> Tensor:
        other = chosen(kind, tints(x))
        return (other + (1 + self.tint * by) * (x - other)).clamp(0, 1)

    def shaded(self, x: Tensor, kind: Tensor, by: Tensor) -> Tensor:
        step = (self.bits * by).round().exp2()
        fewer = (x * LEVELS / step).floor() * step / LEVELS
        inverted = torch.where(x > 1 - by, 1 - x, x)
        return chosen(kind, [fewer, inverted, stretched(x), evened(x)])


def chosen(kind: Tensor, every: Sequence[Tensor]) -> Tensor:  # (B, 1, 1, 1), (B, C, H, W) each
    """Of each picture the one of its kind; the last of what has another."""
    *others, found = every
    for number, one in enumerate(others):
        found = torch.where(kind == number, one, found)
    return found


def stretched(x: Tensor) -> Tensor:
    """The darkest of a channel becomes black, the brightest white; one of a single shade stays."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1 / LEVELS), x)


def evened(x: Tensor) -> Tensor:
    """A pixel becomes the share of those in its channel that are not brighter: all shades are equally frequent."""
    flat = x.flatten(2).contiguous()
    order = flat.sort(-1).values.contiguous()
    return (torch.searchsorted(order, flat, right=True) / flat.shape[-1]).view_as(x)
