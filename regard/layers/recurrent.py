"""Recurrent layers over rows: vanilla, GRU or LSTM, one way or two ways, any depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import UsageProblem
from regard.layers.sizes import DEEPEST, check_shares, check_sizes
from regard.rows import Rows

CELLS = {"vanilla": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@dataclass(frozen=True)
class RecurrentConfig:
    cell: Literal["vanilla", "gru", "lstm"] = "lstm"
    width: int = 512  # of what comes out; each of two ways has half of it
    layers: int = 1
    two_way: bool = False  # forwards and backwards with weights of their own, concatenated
    dropout: float = 0.0  # between layers

    def __post_init__(self) -> None:
        check_sizes(self, "width")
        check_sizes(self, "layers", largest=DEEPEST)
        check_shares(self, "dropout")


@dataclass(frozen=True, eq=False)
class Hidden:
    """Where a recurrence stands: its state, and the LSTM's cell."""

    parts: tuple[Tensor, ...]  # each (layers, B, W)

    def select(self, chosen: Tensor) -> Hidden:
        return Hidden(tuple(part[:, chosen] for part in self.parts))


class Recurrent(nn.Module):
    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        self.ways = 2 if config.two_way else 1
        if config.width % self.ways:
            raise UsageProblem(f"recurrent width {config.width}: two ways share it, so it must be even")
        self.cells = CELLS[config.cell](
            config.width,
            config.width // self.ways,
            num_layers=config.layers,
            bidirectional=config.two_way,
            dropout=config.dropout if config.layers > 1 else 0.0,
            batch_first=True,
        )

    def forward(self, x: Tensor, rows: Rows, start: Hidden | None = None) -> tuple[Tensor, Hidden]:
        """The top layer's states for every token, (N, W), and where each row ended."""
        before = self.to_cells(start) if start else None
        # cells refuse to read nothing: an empty row reads one zero instead
        grid = rows.pad(x) if rows.longest else x.new_zeros(len(rows), 1, x.shape[-1])
        if rows.is_even:
            states, after = self.cells(grid, before)
        else:
            lengths = rows.lengths.clamp(min=1).cpu()
            packed = pack_padded_sequence(grid, lengths, batch_first=True, enforce_sorted=False)
            packed, after = self.cells(packed, before)
            states, _ = pad_packed_sequence(packed, batch_first=True)
        return rows.unpad(states[:, : rows.longest]), self.from_cells(after)

    def from_cells(self, after: Tensor | tuple[Tensor, ...]) -> Hidden:
        parts = after if isinstance(after, tuple) else (after,)
        if self.ways == 1:
            return Hidden(parts)
        # (layers * 2, B, W / 2) -> (layers, B, W): both ways side by side
        return Hidden(tuple(torch.cat([part[0::2], part[1::2]], -1) for part in parts))

    def to_cells(self, hidden: Hidden) -> Tensor | tuple[Tensor, ...]:
        parts = hidden.parts
        if self.ways == 2:
            parts = tuple(torch.stack(part.chunk(2, -1), 1).flatten(0, 1) for part in parts)
        parts = tuple(part.contiguous() for part in parts)
        return parts if self.config.cell == "lstm" else parts[0]
