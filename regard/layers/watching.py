"""Gates and states of recurrent layers that run inside a `with`, computed beside the kernel by the formulas: of Elman
(1990), of Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000), and of Cho et al. (2014).

Letters: B rows, N tokens, T tokens of one row, W width of the gates, P width of a state, which is W unless projected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.recurrent import Hidden, Layer, Recurrent, Way, clip
from regard.rows import Rows

PARTS = {  # of a cell, in the order in which they are stacked
    "vanilla": ("state",),
    "gru": ("reset", "update", "candidate", "state"),
    "lstm": ("input", "forget", "candidate", "output", "cell", "state"),
}


@dataclass(frozen=True, eq=False)
class Ran:
    """One run of one layer, one way: its inputs, where it stood, and the cells' own weights."""

    name: str  # of the module
    cell: str
    layer: int
    backward: bool
    x: Tensor  # (N, in)
    rows: Rows
    start: tuple[Tensor, ...]  # (B, P), of an LSTM also the cell, (B, W)
    cells: tuple[Tensor, ...]  # weights from the input and from the state, their biases, the projection
    clips: tuple[float | None, float | None] = (None, None)  # of an LSTM's cells and projected states

    @property
    def parts(self) -> tuple[str, ...]:
        return PARTS[self.cell]

    @property
    def width(self) -> int:
        return self.cells[1].shape[0] // {"vanilla": 1, "gru": 3, "lstm": 4}[self.cell]

    @property
    def projected(self) -> int | None:
        """How wide a state is, if it is less than the gates."""
        return len(self.cells[4]) if len(self.cells) > 4 else None

    @torch.no_grad()
    def run(self) -> list[Tensor]:
        """The parts of each row at each of its places, (parts, T, W), in the order of the text.  The numbers of a
        projected state are followed by zeros."""
        found = []
        for number, x in enumerate(self.rows.split(self.x)):
            start = tuple(part[number] for part in self.start)
            parts = self.row(x.flip(0) if self.backward else x, start)
            found.append(parts.flip(1) if self.backward else parts)
        return found

    def row(self, x: Tensor, was: tuple[Tensor, ...]) -> Tensor:  # (T, in) -> (parts, T, W)
        inputs, steps = F.linear(x, self.cells[0], self.cells[2]), []
        for one in inputs:
            bounds = {"clips": self.clips} if self.cell == "lstm" else {}
            parts, was = STEPS[self.cell](one, was, *self.cells[1:], **bounds)
            steps.append(torch.stack([F.pad(part, (0, self.width - len(part))) for part in parts]))
        return torch.stack(steps, 1) if steps else x.new_zeros(len(self.parts), 0, self.width)


Step = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]  # the parts of one place, and where the layer stands then


def vanilla(x: Tensor, was: tuple[Tensor, ...], weight: Tensor, _: Tensor, bias: Tensor) -> Step:
    state = torch.tanh(x + weight @ was[0] + bias)
    return (state,), (state,)


def gru(x: Tensor, was: tuple[Tensor, ...], weight: Tensor, _: Tensor, bias: Tensor) -> Step:
    before = weight @ was[0] + bias
    (r, z, n), (r_before, z_before, n_before) = x.chunk(3), before.chunk(3)
    reset, update = torch.sigmoid(r + r_before), torch.sigmoid(z + z_before)
    candidate = torch.tanh(n + reset * n_before)  # the product first, the gate then: as the kernels have it
    state = (1 - update) * candidate + update * was[0]
    return (reset, update, candidate, state), (state,)


def lstm(
    x: Tensor, was: tuple[Tensor, ...], weight: Tensor, _: Tensor, bias: Tensor, projection: Tensor | None = None,
    *, clips: tuple[float | None, float | None] = (None, None),
) -> Step:  # fmt: skip
    i, f, g, o = (x + weight @ was[0] + bias).chunk(4)
    opened, kept, candidate, output = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    cell = clip(kept * was[1] + opened * candidate, clips[0])
    state = output * torch.tanh(cell)
    state = state if projection is None else clip(projection @ state, clips[1])
    return (opened, kept, candidate, output, cell, state), (state, cell)


STEPS: dict[str, Any] = {"vanilla": vanilla, "gru": gru, "lstm": lstm}


@contextmanager
def watch_states(model: nn.Module) -> Iterator[list[Ran]]:
    """Every recurrent layer that runs inside, in the order of their running."""
    runs: list[Ran] = []
    with ExitStack() as stack:
        for name, part in model.named_modules():
            if isinstance(part, Recurrent):
                stack.callback(part.register_forward_pre_hook(_of_recurrent(name, runs), with_kwargs=True).remove)
            elif isinstance(part, Way):
                for number, layer in enumerate(part.layers):
                    hook = _of_layer(f"{name}.layers.{number}", number, part.backward, runs)
                    stack.callback(layer.register_forward_pre_hook(hook).remove)
        yield runs


def _of_layer(name: str, number: int, backward: bool, runs: list[Ran]) -> Any:
    def look(layer: Layer, given: tuple[Any, ...]) -> None:
        x, rows, start, _ = given
        # a layer that reads backwards is given its rows turned round: here they are as they were
        turned = torch.cat([row.flip(0) for row in rows.split(x)]) if backward and rows.total else x
        parts = tuple(part[0].detach().to(x.dtype) for part in start.parts)
        weights = tuple(weight.detach() for weight in layer.cells.all_weights[0])
        clips = layer.config.cell_clip, layer.config.projection_clip
        runs.append(Ran(name, layer.config.cell, number, backward, turned.detach(), rows, parts, weights, clips))

    return look


def _of_recurrent(name: str, runs: list[Ran]) -> Any:
    def look(recurrent: Recurrent, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        runs.extend(ran_in(name, recurrent, *given, **named))

    return look


@torch.no_grad()
def ran_in(name: str, recurrent: Recurrent, x: Tensor, rows: Rows, start: Hidden | None = None) -> list[Ran]:
    """All layers of cells that run in one kernel: what a layer reads is what those below it gave."""
    config, ways, runs = recurrent.config, recurrent.ways, list[Ran]()
    zero = x.new_zeros(config.layers, len(rows), config.width)
    stood = start.parts if start else (zero,) * (2 if config.cell == "lstm" else 1)
    for layer in range(config.layers):
        halves = zip(*(part[layer].detach().chunk(ways, -1) for part in stood), strict=True)  # of each way
        some = []
        for way, half in enumerate(halves):
            weights = tuple(weight.detach() for weight in recurrent.cells.all_weights[layer * ways + way])
            some.append(Ran(name, config.cell, layer, bool(way), x.detach(), rows, half, weights))
        runs += some
        if layer + 1 < config.layers:
            x = torch.cat([torch.cat([parts[-1] for parts in ran.run()]) for ran in some], -1)
    return runs


def states_of(steps: Sequence[Ran]) -> Tensor:  # (parts, T, W)
    """What the runs of one layer over one text gave, a part of the text after the other."""
    return torch.cat([step.run()[0] for step in steps], 1)
