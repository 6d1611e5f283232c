"""Attention, the one module: project, place, look, join the heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.mask import Mask
from regard.attention.memory import Memory, Room
from regard.attention.position import POSITIONS
from regard.attention.score import Score, make_score
from regard.attention.step import attend_in_room
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

        def line(wide: int, narrow: int) -> nn.Module:
            return nn.Linear(wide, narrow, bias=config.bias) if config.project else nn.Identity()

        self.q, self.k, self.v = (line(width, config.heads * size) for _ in range(3))
        self.out = line(config.heads * size, width)
        self.score = make_score(config.score, size)
        self.position = POSITIONS[config.positions](config.heads, size)
        self.heads, self.dropout = config.heads, config.dropout
        self.watchers: list[Watcher] = []  # see watch()

    def remember(self, x: Tensor, rows: Rows, start: Tensor | int = 0) -> Memory:
        """Keys and values of x, (N, W), whose rows begin at place `start`."""
        k = self.position.keys(self.split(self.k(x)), rows.at + start)
        return Memory(self.score.keys(k), self.split(self.v(x)), rows)

    def forward(
        self,
        x: Tensor,
        memory: Memory | Room,
        rows: Rows,
        mask: Mask | None = None,
        start: Tensor | int = 0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Each token of x, (N, W), looks at the memory of its row; a bias, (B or 1, H, Q, K), is the stack's own."""
        q = self.split(self.q(x))
        own = self.position.bias(q, rows, memory.rows, mask)
        bias = own if bias is None else bias if own is None else own + bias
        q = self.score.queries(self.position.queries(q, rows.at + start))
        out = self.look(q, memory, rows, mask, bias)
        for watcher in self.watchers:
            watcher(q, memory.flat() if isinstance(memory, Room) else memory, rows, self.score, mask, bias)
        return self.out(out.flatten(1))  # (N, H, D) -> (N, W)

    def look(
        self, q: Tensor, memory: Memory | Room, rows: Rows, mask: Mask | None, bias: Tensor | None
    ) -> Tensor:  # (N, H, D)
        dropout = self.dropout if self.training else 0.0
        if isinstance(memory, Room):
            if self.score.fused and not dropout:
                return attend_in_room(q, memory, rows, score=self.score, mask=mask, bias=bias)
            memory = memory.flat()
        return attend(q, memory, rows, score=self.score, mask=mask, bias=bias, dropout=dropout)

    def split(self, x: Tensor) -> Tensor:  # (N, H * D) -> (N, H, D)
        return x.unflatten(-1, (self.heads, -1))
