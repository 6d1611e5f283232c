"""Pictures changed at random, all of a batch at once and where they lie: flipped, cropped, bent, recoloured, erased;
and mixed with others (mixup, Zhang et al. 2017; CutMix, Yun et al. 2019).  Whoever calls sets the seed, as for dropout.

Letters: B pictures, C channels, H height, W width, V labels.  Numbers of pixels lie from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta

GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue are to the eye
Step = Callable[[Tensor], Tensor]  # (B, C, H, W) -> (B, C, h, w)


@dataclass(frozen=True)
class Augment:
    """Changes one after the other, then the mixing of pictures and labels; what is left out is not done."""

    steps: Sequence[Step] = ()
    mix: Mix | None = None

    def __call__(self, pixels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:  # (B, C, H, W), (B, V)
        for step in self.steps:
            pixels = step(pixels)
        return (pixels, shares) if self.mix is None else self.mix(pixels, shares)


def drawn(x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:  # (B, 1, 1, 1)
    """A number for each picture."""
    return torch.empty(len(x), 1, 1, 1, device=x.device).uniform_(low, high)


@dataclass(frozen=True)
class Sometimes:
    """A change of some pictures.  The others stay as they are: a small picture that is bent is blurred a little, and a
    model that saw no other would not know sharp ones."""

    step: Step
    chance: float = 0.5

    def __call__(self, x: Tensor) -> Tensor:
        return torch.where(drawn(x) < self.chance, self.step(x), x)


@dataclass(frozen=True)
class Flip:
    """Left and right exchanged, in half of the pictures."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.where(drawn(x) < 0.5, x.flip(-1), x)


@dataclass(frozen=True)
class PaddedCrop:
    """A picture moved by up to so many pixels; what comes in from beyond its edge is black."""

    pixels: int = 4

    def __call__(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        top, left = (torch.randint(2 * self.pixels + 1, (batch, 1), device=x.device) for _ in range(2))
        rows, columns = (start + torch.arange(side, device=x.device) for start, side in ((top, height), (left, width)))
        padded = F.pad(x, (self.pixels,) * 4).permute(0, 2, 3, 1)  # (B, H, W, C)
        number = torch.arange(batch, device=x.device)[:, None, None]
        return padded[number, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class ResizedCrop:
    """A part of a picture, of a share of its area and not quite its shape, made as large as the model wants."""

    side: int
    least: float = 0.25  # of the area
    longest: float = 4 / 3  # of the sides to each other

    def __call__(self, x: Tensor) -> Tensor:
        area, tilt = drawn(x, self.least, 1.0), drawn(x, -math.log(self.longest), math.log(self.longest)).exp().sqrt()
        high, wide = ((area.sqrt() * part).clamp(max=1.0) for part in (tilt, 1 / tilt))
        up, left = ((1 - size) * drawn(x, -1.0, 1.0) for size in (high, wide))
        nothing = torch.zeros_like(high)
        matrix = torch.cat([wide, nothing, left, nothing, high, up], 1).view(-1, 2, 3)
        return sampled(x, matrix, self.side, self.side)


@dataclass(frozen=True)
class Bend:
    """Turned, slanted and stretched a little, each picture in its own way."""

    degrees: float = 15.0
    slant: float = 0.15
    stretch: float = 0.1

    def __call__(self, x: Tensor) -> Tensor:
        turn = drawn(x, -self.degrees, self.degrees) * math.pi / 180
        slants, sizes = ([drawn(x, middle - by, middle + by) for _ in range(2)]
                         for middle, by in ((0.0, self.slant), (1.0, self.stretch)))  # fmt: skip
        cos, sin, nothing = turn.cos(), turn.sin(), torch.zeros_like(turn)
        rows = [cos * sizes[0], -sin + slants[0], nothing, sin + slants[1], cos * sizes[1], nothing]
        return sampled(x, torch.cat(rows, 1).view(-1, 2, 3), *x.shape[2:])


def sampled(x: Tensor, matrix: Tensor, height: int, width: int) -> Tensor:  # (B, C, H, W), (B, 2, 3)
    grid = F.affine_grid(matrix, [len(x), x.shape[1], height, width], align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


@dataclass(frozen=True)
class Recolour:
    """Each picture between itself and one of these, or beyond: black, its mean shade, its shades of grey, a blur."""

    strength: float = 0.5

    def __call__(self, x: Tensor) -> Tensor:
        others = tints(x)
        kind = torch.randint(len(others), (len(x), 1, 1, 1), device=x.device)
        other = sum(torch.where(kind == number, one, 0.0) for number, one in enumerate(others))
        return (other + drawn(x, 1 - self.strength, 1 + self.strength) * (x - other)).clamp(0, 1)


def tints(x: Tensor) -> list[Tensor]:  # (B, C, H, W) each
    """Black, the mean shade of each picture, its shades of grey, a blur: towards them, and away, its colours change."""
    colours = zip(x.split(1, 1), GREY, strict=True) if x.shape[1] == len(GREY) else [(x, 1.0)]
    grey = torch.stack([one * weight for one, weight in colours]).sum(0)  # (B, 1, H, W)
    shade = grey.mean((2, 3), keepdim=True).expand_as(x)
    return [torch.zeros_like(x), shade, grey.expand_as(x), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)]


@dataclass(frozen=True)
class Erase:
    """A rectangle of grey, of up to a share of the area, in some pictures (Zhong et al. 2017)."""

    chance: float = 0.25
    most: float = 0.25

    def __call__(self, x: Tensor) -> Tensor:
        inside = box(x, drawn(x, 0.02, self.most)) & (drawn(x) < self.chance)
        return torch.where(inside, 0.5, x)


def box(x: Tensor, area: Tensor) -> Tensor:  # (B, C, H, W), (B, 1, 1, 1) -> (B, 1, H, W)
    """A rectangle somewhere in each picture that takes about this share of it, shaped as the picture is."""
    side = area.sqrt()
    places = [(torch.arange(size, device=x.device) + 0.5) / size for size in x.shape[2:]]
    down, across = places[0][:, None], places[1]
    top, left = (drawn(x) * (1 - side) for _ in range(2))
    return (down >= top) & (down < top + side) & (across >= left) & (across < left + side)


@dataclass(frozen=True)
class Mix:
    """Each picture with another of its batch: laid over each other, or a rectangle of one in the other; labels have the
    share of the pixels."""

    blend: float = 0.8  # Beta(a, a) of the shares that are laid over each other; 0: none are
    cut: float = 1.0  # likewise of the area of rectangles
    chance: float = 1.0  # that a picture is mixed at all

    def __call__(self, pixels: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:  # (B, C, H, W), (B, V)
        kept = self.kept(pixels)  # (B, 1, H, W) how much of each place stays
        kept = torch.where(drawn(pixels) < self.chance, kept, 1.0)
        other = torch.randperm(len(pixels), device=pixels.device)
        share = kept.mean((1, 2, 3))[:, None]
        return kept * pixels + (1 - kept) * pixels[other], share * shares + (1 - share) * shares[other]

    def kept(self, pixels: Tensor) -> Tensor:
        whole = torch.ones_like(pixels[:, :1])
        laid = whole * beta(pixels, self.blend) if self.blend else None
        cut = (~box(pixels, 1 - beta(pixels, self.cut))).float() if self.cut else None
        if laid is None or cut is None:
            return laid if laid is not None else cut if cut is not None else whole
        return torch.where(drawn(pixels) < 0.5, laid, cut)


def beta(x: Tensor, a: float) -> Tensor:  # (B, 1, 1, 1)
    strength = torch.full((len(x), 1, 1, 1), a, device=x.device)
    return Beta(strength, strength, validate_args=False).sample()  # to validate would be to wait for the device
