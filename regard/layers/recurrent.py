"""Recurrent layers over rows: vanilla, GRU or LSTM, one way or two ways, any depth; and one way by itself, for language
models, with the regularisers of AWD-LSTM (Merity et al., 2018)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.errors import UsageProblem
from regard.layers.sizes import DEEPEST, check_shares, check_sizes
from regard.rows import Rows

Cell = Literal["vanilla", "gru", "lstm"]
CELLS = {"vanilla": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
MOST_FILLED = 1.5  # times the tokens of rows that are made equally long
KERNELS: dict[str, Any] = {"vanilla": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}

# Weights that were dropped lie apart from the others, and projections have a slower kernel on a CPU: nobody can help it
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")
warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")


@dataclass(frozen=True)
class RecurrentConfig:
    cell: Cell = "lstm"
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
        return Hidden(tuple(part.index_select(1, chosen) for part in self.parts))

    def put(self, places: Tensor) -> Hidden:
        """The same rows, each in another place: all places are taken."""
        return Hidden(tuple(torch.empty_like(part).index_copy(1, places, part) for part in self.parts))

    def moved(self, chosen: Tensor, to: Hidden) -> Hidden:
        """The same, but for the chosen rows, which stand elsewhere now."""
        pairs = zip(self.parts, to.parts, strict=True)
        return Hidden(tuple(part.to(new.dtype).index_copy(1, chosen, new) for part, new in pairs))

    def detached(self) -> Hidden:
        return Hidden(tuple(part.detach() for part in self.parts))


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
        """The top layer's states for every token, (N, W), and where each row ended; an empty one, where it began."""
        if not rows.total:
            return x.new_zeros(0, self.config.width), start or self.nothing(len(rows), x)
        if rows.is_even:
            states, after = self.cells(rows.pad(x), self.to_cells(start) if start else None)
            return rows.unpad(states), self.from_cells(after)
        packing = Packing.of(rows)
        packed = PackedSequence(x.index_select(0, packing.order), packing.sizes)
        packed, after = self.cells(packed, self.to_cells(start.select(packing.chosen)) if start else None)
        ended, chosen = self.from_cells(after), packing.chosen
        whole = len(chosen) == len(rows)
        ended = ended.put(chosen) if whole else (start or self.nothing(len(rows), x)).moved(chosen, ended)
        return packed.data.index_select(0, packing.back), ended

    def states(self, x: Tensor, rows: Rows, start: Hidden) -> Tensor:  # (N, W) -> (N, W)
        """The states alone.  Where rows end is not asked, so in training they are filled up behind their ends, if that
        is little: cuDNN launches fewer kernels for a rectangle than for rows that become fewer."""
        filled = len(rows) * rows.longest
        if not self.training or self.ways == 2 or not rows.total < filled <= MOST_FILLED * rows.total:
            return self(x, rows, start)[0]
        return rows.unpad(self.cells(rows.pad(x), self.to_cells(start))[0])

    def nothing(self, rows: int, x: Tensor) -> Hidden:
        """Where a row stands before its first token."""
        zeros = x.new_zeros(self.config.layers, rows, self.config.width)
        return Hidden((zeros,) * (2 if self.config.cell == "lstm" else 1))

    def from_cells(self, after: Tensor | tuple[Tensor, ...]) -> Hidden:
        parts = after if isinstance(after, tuple) else (after,)
        if self.ways == 1:
            return Hidden(parts)
        # (layers * 2, B, W / 2) -> (layers, B, W): both ways side by side
        return Hidden(tuple(part.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2) for part in parts))

    def to_cells(self, hidden: Hidden) -> Tensor | tuple[Tensor, ...]:
        parts = hidden.parts
        if self.ways == 2:
            parts = tuple(torch.stack(part.chunk(2, -1), 1).flatten(0, 1) for part in parts)
        parts = tuple(part.contiguous() for part in parts)
        return parts if self.config.cell == "lstm" else parts[0]


@dataclass(frozen=True)
class WayConfig:
    """Layers one above the other that all read one way."""

    cell: Cell = "lstm"
    width: int = 650  # of what comes out of each layer,
    last: int = 650  # and of the last
    layers: int = 2
    cells: int | None = None  # more than the width, to which an LSTM projects them (Sak et al., 2014); None: as many
    residual: bool = False  # above the first, a layer adds to what it reads
    dropout: float = 0.0  # between layers, the same at every place of a row
    weight_dropout: float = 0.0  # of the weights from state to state
    cell_clip: float | None = None  # an LSTM's cells are held between minus this and this, as those of ELMo's authors
    projection_clip: float | None = None  # and so are projected states

    def __post_init__(self) -> None:
        check_sizes(self, "width", "last", "cells")
        check_clips(self)
        check_sizes(self, "layers", largest=DEEPEST)
        check_shares(self, "dropout", "weight_dropout")

    @property
    def clips(self) -> bool:
        return self.cell_clip is not None or self.projection_clip is not None

    @property
    def widths(self) -> list[int]:
        return [*[self.width] * (self.layers - 1), self.last]


def check_clips(config: WayConfig) -> None:
    for name in ("cell_clip", "projection_clip"):
        value = getattr(config, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageProblem(f"{name}={value}: give a number above 0, or none")
    if config.clips and config.cell != "lstm":
        raise UsageProblem(f"cell={config.cell}: only an LSTM's cells and projections can be clipped")
    if config.projection_clip and not config.cells:
        raise UsageProblem(f"projection_clip={config.projection_clip}: without cells there is no projection to clip")


def clipped_lstm(
    gates: Tensor, cell: Tensor, projection: Tensor | None = None, *, config: WayConfig
) -> tuple[Tensor, Tensor]:  # (B, 4 C), (B, C) -> (B, W), (B, C)
    """One step of an LSTM whose cells, and projected states, are held within bounds (Sak et al., 2014)."""
    i, f, g, o = gates.chunk(4, -1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    cell = clip(cell, config.cell_clip)
    state = torch.sigmoid(o) * torch.tanh(cell)
    return state if projection is None else clip(F.linear(state, projection), config.projection_clip), cell


def clip(x: Tensor, bound: float | None) -> Tensor:
    return x if bound is None else x.clamp(-bound, bound)


class Layer(nn.Module):
    """One layer that reads forwards, on from where each row stood."""

    def __init__(self, config: WayConfig, inputs: int, width: int):
        super().__init__()
        self.config, self.width = config, width
        projected = {"proj_size": width} if config.cells else {}
        self.cells = CELLS[config.cell](inputs, config.cells or width, batch_first=True, **projected)

    def forward(self, x: Tensor, rows: Rows, start: Hidden, packing: Packing | None) -> tuple[Tensor, Hidden]:
        """The states of every token, (N, W), and where each row stands now.  Rows that are not even need a packing."""
        if not rows.total:
            return x.new_zeros(0, self.width), start
        parts = [part.to(x.dtype) for part in start.parts]
        if packing is None:
            states, after = self.run(parts, rows.pad(x))
            return rows.unpad(states), Hidden(tuple(after))
        began, x = Hidden(tuple(parts)), x.index_select(0, packing.order)
        states, after = self.run([part.index_select(1, packing.chosen) for part in parts], x, packing.sizes)
        return states.index_select(0, packing.back), began.moved(packing.chosen, Hidden(tuple(after)))

    def run(self, parts: list[Tensor], x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """By torch's own kernel, which takes weights as they are given: (B, T, in), or (N, in) packed."""
        if self.config.clips:
            return self.run_clipped(parts, x, sizes)
        kernel, whole = KERNELS[self.config.cell], [part.contiguous() for part in parts]
        start = whole if self.config.cell == "lstm" else whole[0]
        how = (True, 1, 0.0, self.training, False)  # biases, layers, dropout between them, in training, two ways
        if sizes is None:
            states, *after = kernel(x, start, self.weights(), *how, True)  # rows first
        else:
            states, *after = kernel(x, sizes, start, self.weights(), *how)
        return states, after

    def run_clipped(self, parts: list[Tensor], x: Tensor, sizes: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """The same step by step, for the kernel cannot clip."""
        to_state, from_state, bias, second_bias, *projection = self.weights()
        inputs = F.linear(x, to_state, bias + second_bias)  # (B, T, 4 C), or (N, 4 C)
        steps = inputs.unbind(1) if sizes is None else inputs.split(sizes.tolist())
        (state,), (cell,) = parts  # (B, W), (B, C)
        states = []
        for step in steps:
            count = len(step)  # packed rows become fewer
            gates = step + F.linear(state[:count], from_state)
            new = clipped_lstm(gates, cell[:count], *projection, config=self.config)
            state, cell = (torch.cat([now, was[count:]]) for now, was in zip(new, (state, cell), strict=True))
            states.append(new[0])
        return torch.stack(states, 1) if sizes is None else torch.cat(states), [state[None], cell[None]]

    def weights(self) -> list[Tensor]:
        """Those of the cells; from state to state, some are dropped once for all places that are read together."""
        to_state, from_state, *rest = self.cells.all_weights[0]
        return [to_state, F.dropout(from_state, self.config.weight_dropout, self.training), *rest]

    def nothing(self, rows: int, x: Tensor) -> Hidden:
        """Where a row stands before its first token."""
        sizes = [self.width] + [self.cells.hidden_size] * (self.config.cell == "lstm")
        return Hidden(tuple(x.new_zeros(1, rows, size) for size in sizes))


class Way(nn.Module):
    def __init__(self, config: WayConfig, inputs: int, *, backward: bool = False):
        super().__init__()
        self.config, self.backward = config, backward
        if config.cells and (config.cell != "lstm" or config.cells <= max(config.widths)):
            raise UsageProblem(
                f"cell={config.cell}, cells={config.cells}, width={config.width}, last={config.last}: of cells, only "
                "those of an LSTM are projected, to fewer than they are"
            )
        if config.residual and config.layers > 1 and config.width != config.last:
            raise UsageProblem(f"width={config.width}, last={config.last}: residual layers must be equally wide")
        self.layers = nn.ModuleList(Layer(config, *sizes) for sizes in pairwise([inputs, *config.widths]))

    def each(self, x: Tensor, rows: Rows, was: Sequence[Hidden] = ()) -> Iterator[tuple[Tensor, Hidden]]:
        """The states of every layer, (N, W), and where it stands; where it reads backwards, at each row's first token.
        What goes on to the layer above is dropped on its way."""
        packing = None if rows.is_even else Packing.of(rows)
        places = reversed_places(rows) if self.backward else None
        x = x if places is None else x[places]
        layers: list[Any] = list(self.layers)
        for number, layer in enumerate(layers):
            start = was[number] if was else layer.nothing(len(rows), x)
            states, after = layer(x, rows, start, packing)
            states = states + x if self.config.residual and number else states
            yield states if places is None else states[places], after
            x = locked(states, rows, self.config.dropout, self.training)


@dataclass(frozen=True, eq=False)
class Packing:
    """Rows of unequal length in the order in which cuDNN reads them: the first tokens of all rows, then the second
    ones, and so on, in rows that become fewer, the longest first.  Rows without tokens are left out."""

    order: Tensor  # (N,) which token comes when
    back: Tensor  # (N,) and when each token came
    sizes: Tensor  # (T,) rows that have a token at each place; on the CPU, as the kernel wants it
    chosen: Tensor  # (rows that have tokens,) the longest first

    @classmethod
    @torch.compiler.disable  # what follows from lengths is no code for any lengths
    def of(cls, rows: Rows) -> Packing:
        known = rows if isinstance(rows, LaidOut) else LaidOut.of_rows(rows).to(rows.offsets.device)
        return known.packing


@dataclass(frozen=True, eq=False)
class LaidOut(Rows):
    """Rows that know how they are packed, and where their tokens lie in a grid.  All of it is worked out on the CPU and
    sent in one piece: to launch so many small kernels takes longer, and it can be done while a batch is fetched."""

    numbers: Tensor  # all that follows from the lengths, one after the other
    packing: Packing

    @classmethod
    def of_rows(cls, rows: Rows) -> LaidOut:
        """On the CPU, wherever the rows are; by numpy, which takes less time than torch for so few numbers."""
        longest_first = rows.sizes.argsort(descending=True, stable=True)
        sizes = (rows.sizes[:, None] > torch.arange(rows.longest)).sum(0)  # (T,)
        lengths, before, rank = rows.sizes.numpy(), (sizes.cumsum(0) - sizes).numpy(), inverse(longest_first).numpy()
        row = np.repeat(np.arange(len(rows)), lengths)
        at = np.arange(rows.total) - (np.cumsum(lengths) - lengths)[row]
        offsets = np.zeros(len(rows) // 2 * 2 + 2, np.int32)  # two of them in each number
        offsets[1 : len(rows) + 1] = np.cumsum(lengths)
        back, *rest = map(torch.from_numpy, (before[at] + rank[row], at, row * rows.longest + at, lengths))
        chosen = longest_first[: int(sizes[:1].sum())]
        numbers = torch.cat([inverse(back), back, *rest, torch.from_numpy(offsets).view(torch.long), chosen])
        return cls.of_numbers(numbers, rows, sizes)

    @classmethod
    def of_numbers(cls, numbers: Tensor, rows: Rows, sizes: Tensor) -> LaidOut:
        """The same wherever the numbers are."""
        count, total = len(rows), rows.total
        parts = [total] * 4 + [count, count // 2 + 1]
        order, back, at, slots, lengths, offsets, chosen = numbers.split([*parts, len(numbers) - sum(parts)])
        packing = Packing(order, back, sizes, chosen)
        laid = cls(offsets.view(torch.int32)[: count + 1], total, rows.longest, numbers, packing)
        laid.__dict__.update(at=at, slots=slots, lengths=lengths, sizes=rows.sizes)
        return laid

    def to(self, device: torch.device | str) -> LaidOut:
        leaves = torch.device(device).type == "cuda" and self.numbers.device.type == "cpu"
        numbers = self.numbers.pin_memory() if leaves else self.numbers
        return self.of_numbers(numbers.to(device, non_blocking=leaves), self, self.packing.sizes)

    def pin_memory(self) -> LaidOut:
        """In memory from which a copy to a GPU need not be waited for."""
        there = self.numbers.is_pinned()
        return self if there else self.of_numbers(self.numbers.pin_memory(), self, self.packing.sizes)


def inverse(order: Tensor) -> Tensor:  # (N,)
    """Of an order, when each of its places comes."""
    return torch.empty_like(order).index_copy(0, order, torch.arange(len(order), device=order.device))


def reversed_places(rows: Rows) -> Tensor:  # (N,)
    """Each row from its last token to its first; done twice, it is as it was."""
    return (rows.first + rows.last)[rows.row] - torch.arange(rows.total, device=rows.offsets.device)


def locked(x: Tensor, rows: Rows, share: float, training: bool) -> Tensor:  # (N, W)
    """Dropout that is the same at every place of a row (Gal and Ghahramani, 2016)."""
    if not training or not share:
        return x
    kept = F.dropout(x.new_ones(len(rows), x.shape[-1]), share)
    return rows.unpad(rows.pad(x) * kept[:, None]) if rows.is_even else x * kept[rows.row]
