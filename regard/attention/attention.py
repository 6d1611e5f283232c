"""Attention, the one module: project, place, look, join the heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import padded
from regard.attention.fixed import FixedRoom
from regard.attention.mask import Mask
from regard.attention.memory import Memory, Room
from regard.attention.position import POSITIONS, Rotary
from regard.attention.route import Meeting, Route
from regard.attention.score import Score, make_score
from regard.attention.step import attend_in_place, attend_in_room
from regard.errors import UsageProblem
from regard.rows import Rows

Watcher = Callable[[Tensor, Memory, Rows, Score, Mask | None, Tensor | None], None]


@dataclass(frozen=True)
class AttentionConfig:
    heads: int = 8
    size: int | None = None  # of a head; None: width / heads
    bias: bool = True  # in the projections
    project: bool = True  # without: queries, keys and values are what is given, as in recurrent translation
    dropout: float = 0.0  # on the weights; the ragged kernel has none, so presets leave it at 0
    score: Literal["cosine", "additive", "location", "general", "dot", "scaled-dot"] = "scaled-dot"
    positions: Literal["none", "rotary", "distance"] = "none"  # those that enter attention itself


class Attention(nn.Module):
    """Remember what can be looked at, then look.  Knows nothing of where its memory comes from."""

    def __init__(self, width: int, config: AttentionConfig):
        super().__init__()
        if config.heads < 1 or (config.size is None and width % config.heads):
            raise UsageProblem(f"width {width} does not divide into {config.heads} heads; change one of them")
        size = config.size or width // config.heads
        if not config.project and config.heads * size != width:
            raise UsageProblem(
                f"attention.heads={config.heads}, attention.size={size}, width {width}: attention without projections "
                "(attention.project=false) has heads that make up the width"
            )

        def line(wide: int, narrow: int) -> nn.Module:
            return nn.Linear(wide, narrow, bias=config.bias) if config.project else nn.Identity()

        self.q, self.k, self.v = (line(width, config.heads * size) for _ in range(3))
        self.out = line(config.heads * size, width)
        self.score = make_score(config.score, size)
        self.position = POSITIONS[config.positions](config.heads, size)
        self.heads, self.dropout = config.heads, config.dropout
        self.joined: tuple[Tensor, Tensor | None] | None = None  # the lines of q, k and v in one, laid so once for all
        self.turned = isinstance(self.position, Rotary)  # by places, which nobody else asks for
        self.route = Route()  # a family may have another
        self.watchers: list[Watcher] = []  # see watch()

    def remember(self, x: Tensor, rows: Rows, start: Tensor | int = 0, drawn: Any = None) -> Memory:
        """Keys and values of x, (N, W), whose rows begin at place `start`; `drawn` is what chance decided before."""
        k = self.split(self.k(x))
        v = k if isinstance(self.v, nn.Identity) else self.split(self.v(x))
        return self.kept(x, k, v, rows, start, drawn)

    def itself(self, x: Tensor, rows: Rows, start: Tensor | int = 0) -> tuple[Tensor | None, Memory]:
        """What x, (N, W), remembers to look at itself; and its queries, (N, H, D), if one product made all three."""
        if not self.joins(x, rows):
            return None, self.remember(x, rows, start)
        q, k, v = F.linear(x, *(self.joined or self.join())).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return q, self.kept(x, k, v, rows, start)

    def joins(self, x: Tensor, rows: Rows) -> bool:
        """Whether one product pays: a GPU is better used by it; a CPU is not, and would lay weights out in vain, as a
        step of writing would."""
        return self.joined is not None or (
            x.is_cuda and rows.longest > 1 and all(type(line) is nn.Linear for line in (self.q, self.k, self.v))
        )

    def join(self) -> tuple[Tensor, Tensor | None]:  # (3 H D, W), (3 H D,)
        """The weights of q, k and v one below the other, and their biases."""
        lines: Any = self.q, self.k, self.v
        weight = torch.cat([line.weight for line in lines])
        return weight, None if lines[0].bias is None else torch.cat([line.bias for line in lines])

    def kept(
        self, x: Tensor, k: Tensor, v: Tensor, rows: Rows, start: Tensor | int, drawn: Any = None
    ) -> Memory:  # (N, W), (N, H, D), (N, H, D)
        k = self.position.keys(k, rows.at + start if self.turned else rows.at)
        return self.route.remember(x, Memory(self.score.keys(k), v, rows), drawn)

    def forward(
        self,
        x: Tensor,
        memory: Memory | Room,
        rows: Rows,
        mask: Mask | None = None,
        start: Tensor | int = 0,
        bias: Tensor | None = None,
        q: Tensor | None = None,
    ) -> Tensor:
        """Each token of x, (N, W), looks at the memory of its row; a bias, (B or 1, H, Q, K), is the stack's own.  Its
        queries, (N, H, D), may have been made with the memory: see `itself`."""
        q, bias = self.placed(x, memory, rows, mask, start, bias, q)
        out = self.look(q, memory, rows, mask, bias)
        for watcher in self.watchers:
            watcher(q, memory.flat() if isinstance(memory, Room) else memory, rows, self.score, mask, bias)
        return self.out(out.flatten(1))  # (N, H, D) -> (N, W)

    def scores(
        self,
        x: Tensor,
        memory: Memory | Room,
        rows: Rows,
        mask: Mask | None = None,
        start: Tensor | int = 0,
        bias: Tensor | None = None,
        q: Tensor | None = None,
    ) -> Tensor:  # (B, H, Q, K)
        """What the softmax is of, the bias among it: a stack may hand it up to the next layer."""
        q, bias = self.placed(x, memory, rows, mask, start, bias, q)
        logits = self.score.logits(padded(q, rows), keys_of(memory))
        return logits if bias is None else logits + bias

    def placed(
        self,
        x: Tensor,
        memory: Memory | Room,
        rows: Rows,
        mask: Mask | None,
        start: Tensor | int,
        bias: Tensor | None,
        q: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries, (N, H, D), that know where they stand, and all that is added to the logits."""
        q = self.split(self.q(x)) if q is None else q
        own = self.position.bias(q, rows, memory.rows, mask)
        bias = own if bias is None else bias if own is None else own + bias
        return self.score.queries(self.position.queries(q, rows.at + start if self.turned else rows.at)), bias

    def look(
        self, q: Tensor, memory: Memory | Room, rows: Rows, mask: Mask | None, bias: Tensor | None
    ) -> Tensor:  # (N, H, D)
        dropout = self.dropout if self.training else 0.0
        if isinstance(memory, FixedRoom) and self.score.fused:
            return attend_in_place(q, memory, score=self.score, bias=bias)
        if isinstance(memory, Room):
            if self.score.fused and not dropout:
                return attend_in_room(q, memory, rows, score=self.score, mask=mask, bias=bias)
            memory = memory.flat()
        return self.route(Meeting(q, memory, rows, self.score, mask, bias, dropout))

    def split(self, x: Tensor) -> Tensor:  # (N, H * D) -> (N, H, D)
        return x.unflatten(-1, (self.heads, -1))


def keys_of(memory: Memory | Room) -> Tensor:  # (B, H, K, D)
    """Keys in a grid, wherever they lie."""
    if isinstance(memory, FixedRoom):
        return memory.keys.flatten(0, 2)[memory.rows.cells].transpose(1, 2)
    if isinstance(memory, Room):
        return memory.keys[:, : memory.rows.longest].transpose(1, 2)
    return padded(memory.k, memory.rows)
