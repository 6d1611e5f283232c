"""By which way queries meet keys: all with all, unless a paper has a shorter way.

Letters: N tokens of all rows together; B rows, Q and K the longest row of queries and of keys; H heads, D size of one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.attention.attend import attend, attention_weights, padded
from regard.attention.mask import Mask
from regard.attention.memory import Memory
from regard.attention.score import Score
from regard.errors import UsageProblem
from regard.rows import Rows


class Route(nn.Module):
    """All with all.  Another way says how it looks, `forward`, and what it looked at, `weights`."""

    anew = False  # whether a text that has grown is read from its beginning

    def remember(self, x: Tensor, memory: Memory, drawn: Any = None) -> Memory:  # (N, W)
        """A memory of x, with what else of x this way needs; `drawn` is what chance decided when it was made before."""
        return memory

    def drawn(self, memory: Memory) -> Any:
        """What chance decided in a memory."""
        return None

    def forward(
        self,
        q: Tensor,
        memory: Memory,
        rows: Rows,
        score: Score,
        mask: Mask | None,
        bias: Tensor | None,
        dropout: float,
    ) -> Tensor:  # (N, H, D)
        return attend(q, memory, rows, score=score, mask=mask, bias=bias, dropout=dropout)

    def weights(
        self, q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None, bias: Tensor | None
    ) -> Tensor:  # (B, H, Q, K)
        """How much each key counts in what a query is told; 0 where it does not look."""
        return attention_weights(q, memory, rows, score, mask, bias)

    def mixed(self, weights: Tensor, memory: Memory, rows: Rows, mask: Mask | None) -> Tensor:  # -> (N, H, D)
        """What queries are told, by these weights."""
        values = padded(memory.v, memory.rows)
        return rows.unpad((weights.to(values.dtype) @ values).transpose(1, 2))


def check_whole(rows: Rows, memory: Memory, bias: Tensor | None) -> None:
    """Refuse what only the way of all with all can do."""
    if bias is not None:
        raise UsageProblem("a bias is a number for each pair of places, which only attention of all with all has")
    if rows.total != memory.rows.total:
        raise UsageProblem(
            f"{rows.total} tokens look at {memory.rows.total}: this attention reads whole texts, and cannot read on"
        )
