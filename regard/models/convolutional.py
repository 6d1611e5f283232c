"""A small residual network of convolutions (He et al., 2015), to teach a DeiT: nine layers, as DAWNBench's winners had.

Letters: B pictures, W width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import OwnSettings
from regard.errors import Problem, UsageProblem
from regard.layers.patches import Pictures
from regard.layers.sizes import check_shares, check_sizes
from regard.models.encoder import Head
from regard.models.published import EncoderFamily
from regard.models.recurrent_heads import OwnHead
from regard.rows import Rows

SMALLEST = 8  # pixels of a side: it is halved three times


@dataclass(frozen=True)
class ConvolutionalConfig:
    width: int = 512  # of the last layer; each one before it has half of the next
    channels: int = 3
    picture: int = 32  # pixels of the side of pictures that it is trained on
    dropout: float = 0.0

    layers = 4  # groups of convolutions; the pictures' own numbers are none

    def __post_init__(self) -> None:
        check_sizes(self, "width", "channels", "picture")
        check_shares(self, "dropout")
        if self.width % 8:
            raise UsageProblem(f"width={self.width} in ConvolutionalConfig: give a multiple of 8, for it is halved")


class Convolution(nn.Sequential):
    def __init__(self, narrow: int, wide: int):
        norm = nn.BatchNorm2d(wide)
        norm.register_buffer("num_batches_tracked", None)  # which nothing asks for
        super().__init__(nn.Conv2d(narrow, wide, 3, padding=1, bias=False), norm, nn.ReLU())


class Halved(nn.Module):
    """A convolution, the larger of neighbours, and where `residual`, what two more convolutions add to them."""

    def __init__(self, narrow: int, wide: int, *, residual: bool):
        super().__init__()
        self.first = Convolution(narrow, wide)
        self.added = nn.Sequential(Convolution(wide, wide), Convolution(wide, wide)) if residual else None

    def forward(self, x: Tensor) -> Tensor:  # (B, narrow, h, w) -> (B, wide, h / 2, w / 2)
        x = F.max_pool2d(self.first(x), 2)
        return x if self.added is None else x + self.added(x)


class Convolutional(nn.Module):
    """One state a picture: the largest of each number over the places of the last layer."""

    def __init__(self, config: ConvolutionalConfig):
        super().__init__()
        self.config = config
        first, *rest = (config.width // share for share in (8, 4, 2, 1))
        self.first = Convolution(config.channels, first)
        shapes = zip((first, *rest), rest, (True, False, True), strict=False)
        self.blocks = nn.ModuleList(Halved(narrow, wide, residual=residual) for narrow, wide, residual in shapes)

    def forward(self, pictures: Pictures, types: None = None) -> Tensor:  # (B, W)
        return torch.cat([self.seen(some) for some in pictures.alike])

    def seen(self, some: Tensor) -> Tensor:  # (b, C, height, width) -> (b, W)
        if some.shape[1] != self.config.channels or min(some.shape[2:]) < SMALLEST:
            shape = " x ".join(map(str, some.shape[1:]))
            raise Problem(f"pictures of {shape}: this model reads {self.config.channels} channels, {SMALLEST} pixels")
        x = self.first(some.contiguous(memory_format=torch.channels_last))
        for block in self.blocks:
            x = block(x)
        return x.amax((2, 3))

    def layers(self, pictures: Pictures, types: None = None) -> Iterator[Tensor]:
        """It has one state a picture: that of the last layer."""
        yield self(pictures)

    def rows(self, pictures: Pictures) -> Rows:
        return Rows.even(len(pictures), 1, next(self.parameters()).device)

    def parts(self) -> list[nn.Module]:
        return [self.first, *self.blocks]


def begin(module: nn.Module) -> None:
    """Numbers to begin with, for activations that drop what is below zero (He et al., 2015)."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out")
        elif isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.01)
            nn.init.zeros_(part.bias)


def picture_head(config: ConvolutionalConfig, outputs: int) -> Head:
    return Head(config.width, None, outputs, pool="first", dropout=config.dropout)


PRESETS = {
    "convolutional": ConvolutionalConfig(),  # 6.6 million parameters
    "convolutional-small": ConvolutionalConfig(256),
}

FAMILY = EncoderFamily(
    ConvolutionalConfig(),
    OwnSettings(),
    Rules((("encoder.{rest}", "encoder.{rest}"),)),
    "",
    {
        "ConvolutionalModel": (),
        "ConvolutionalClassifier": (OwnHead("classify", picture_head),),
    },
    kind=Convolutional,
    begin=begin,
)
