"""A picture as a row of patches (Dosovitskiy et al., 2020): each cut out by a convolution, with tokens before them and
positions that are resized to pictures of another size.

Letters: B pictures, C channels, N patches of all pictures and the tokens before them, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import Problem, UsageProblem
from regard.layers.sizes import check_shares, check_sizes
from regard.rows import Rows


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of any sizes in one batch: neighbours of one size lie in one tensor."""

    alike: tuple[Tensor, ...]  # (b, C, height, width) each

    @classmethod
    def of(cls, pictures: Sequence[Tensor]) -> Pictures:  # (C, height, width) each
        return cls(tuple(torch.stack(list(some)) for _, some in groupby(pictures, key=lambda one: one.shape)))

    def to(self, device: torch.device | str) -> Pictures:
        return Pictures(tuple(some.to(device, non_blocking=True) for some in self.alike))

    def __len__(self) -> int:
        return sum(map(len, self.alike))

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The height and width of each picture, in pixels."""
        return [(some.shape[2], some.shape[3]) for some in self.alike for _ in range(len(some))]


@dataclass(frozen=True)
class PatchesConfig:
    width: int = 768
    size: int = 16  # pixels of a patch's side
    picture: int = 224  # pixels of the side of pictures whose positions are learned
    channels: int = 3
    tokens: int = 1  # before the patches: the class token; DeiT's distillation token is the second
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(self, "width", "size", "picture", "channels", "tokens")
        check_shares(self, "dropout")

    @property
    def side(self) -> int:
        """Patches along a side of a picture."""
        return self.picture // self.size


class Patches(nn.Module):
    def __init__(self, config: PatchesConfig):
        super().__init__()
        if config.size > config.picture:
            raise UsageProblem(f"patches of {config.size} pixels do not fit into pictures of {config.picture}")
        self.config = config
        self.cut = nn.Conv2d(config.channels, config.width, config.size, stride=config.size)
        self.first = nn.ParameterList(torch.empty(1, 1, config.width) for _ in range(config.tokens))
        self.positions = nn.Parameter(torch.empty(1, config.tokens + config.side**2, config.width))
        self.dropout = nn.Dropout(config.dropout)
        for part in (*self.first, self.positions):
            nn.init.trunc_normal_(part, std=0.02, a=-0.04, b=0.04)

    def grid(self, size: tuple[int, int]) -> tuple[int, int]:
        """How many patches lie below and beside each other; what is left at the ends of a picture is not read."""
        height, width = (side // self.config.size for side in size)
        if not height or not width:
            raise Problem(
                f"a picture of {size[1]} x {size[0]} pixels is smaller than a patch of {self.config.size}; enlarge it"
            )
        return height, width

    def rows(self, pictures: Pictures) -> Rows:
        """Where each picture begins: its tokens, then its patches, row after row of them."""
        device = self.positions.device
        lengths = [self.config.tokens + height * width for height, width in map(self.grid, pictures.sizes)]
        return Rows.even(len(lengths), lengths[0], device) if len(pictures.alike) == 1 else Rows.of(lengths, device)

    def forward(self, pictures: Pictures) -> Tensor:  # (N, W)
        return torch.cat([self.embedded(some) for some in pictures.alike])

    def embedded(self, some: Tensor) -> Tensor:  # (b, C, height, width) -> (n, W)
        if some.shape[1] != self.config.channels:
            raise Problem(f"pictures have {some.shape[1]} channels, and this model reads {self.config.channels}")
        grid = self.grid((some.shape[2], some.shape[3]))
        patches = self.cut(some).flatten(2).transpose(1, 2)  # (b, W, h, w) -> (b, h w, W)
        tokens = [token.expand(len(some), -1, -1) for token in self.first]
        x = torch.cat([*tokens, patches], 1) + self.placed(grid)
        return self.dropout(x).flatten(0, 1)

    def placed(self, grid: tuple[int, int]) -> Tensor:  # (1, tokens + h w, W)
        """Positions for a grid of patches: those that were learned, resized where it is another grid."""
        side, first = self.config.side, self.config.tokens
        if grid == (side, side):
            return self.positions
        learned = self.positions[:, first:].unflatten(1, (side, side)).permute(0, 3, 1, 2)  # (1, W, side, side)
        resized = F.interpolate(learned, size=grid, mode="bicubic", align_corners=False)
        return torch.cat([self.positions[:, :first], resized.flatten(2).transpose(1, 2)], 1)
