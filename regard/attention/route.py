"""By which way queries meet keys: all with all, unless a paper has a shorter way.

Letters: N tokens of all rows together; B rows, Q and K the longest row of queries and of keys; H heads, D size of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.attention.attend import attend, attention_weights, padded
from regard.attention.mask import Mask
from regard.attention.memory import Memory
from regard.attention.score import Score
from regard.errors import UsageProblem
from regard.rows import Rows


@dataclass(frozen=True, eq=False)
class Meeting:
    """Queries, what they look at, and how."""

    q: Tensor  # (N, H, D)
    memory: Memory
    rows: Rows  # of the queries
    score: Score
    mask: Mask | None = None
    bias: Tensor | None = None  # (B or 1, H or 1, Q, K)
    dropout: float = 0.0

    def check_whole(self) -> None:
        """Refuse what only the way of all with all can do."""
        if self.bias is not None:
            raise UsageProblem("a bias is a number for each pair of places, which only attention of all with all has")
        if self.rows.total != self.memory.rows.total:
            raise UsageProblem(
                f"{self.rows.total} tokens look at {self.memory.rows.total}: this attention reads whole texts, and "
                "cannot read on"
            )


class Route(nn.Module):
    """All with all.  Another way says how it looks, `forward`, and what it looked at, `weights`."""

    anew = False  # whether a text that has grown is read from its beginning

    def remember(self, x: Tensor, memory: Memory, drawn: Any = None) -> Memory:  # (N, W)
        """A memory of x, with what else of x this way needs; `drawn` is what chance decided when it was made before."""
        return memory

    def drawn(self, memory: Memory) -> Any:
        """What chance decided in a memory."""
        return None

    def forward(self, met: Meeting) -> Tensor:  # (N, H, D)
        q, memory, rows, score = met.q, met.memory, met.rows, met.score
        return attend(q, memory, rows, score=score, mask=met.mask, bias=met.bias, dropout=met.dropout)

    def weights(self, met: Meeting) -> Tensor:  # (B, H, Q, K)
        """How much each key counts in what a query is told; 0 where it does not look."""
        return attention_weights(met.q, met.memory, met.rows, met.score, met.mask, met.bias)

    def mixed(self, weights: Tensor, memory: Memory, rows: Rows, mask: Mask | None) -> Tensor:  # -> (N, H, D)
        """What queries are told, by these weights."""
        values = padded(memory.v, memory.rows)
        return rows.unpad((weights.to(values.dtype) @ values).transpose(1, 2))
