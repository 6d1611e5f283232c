"""Gates and states that are watched are those of the kernel: for every cell, each way, on from anywhere."""

from __future__ import annotations

import pytest
import torch

from regard.layers.recurrent import Hidden, Recurrent, RecurrentConfig, Way, WayConfig
from regard.layers.watching import PARTS, states_of, watch_states
from regard.rows import Rows

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

LENGTHS = {"uneven": [5, 2, 3], "even": [4, 4], "one": [6]}
ROWS = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
CELLS = pytest.mark.parametrize("cell", PARTS)


def close(got, wanted) -> None:
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)


def side_by_side(ways, rows) -> torch.Tensor:  # (N, W)
    """The states of some ways, the last of the parts of each."""
    return torch.cat([torch.cat([parts[-1] for parts in way.run()]) for way in ways], -1)


@CELLS
@ROWS
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
@torch.no_grad()
def test_the_states_of_layers_in_one_kernel(cell, lengths, layers, two_way, goes_on):
    torch.manual_seed(0)
    recurrent = Recurrent(RecurrentConfig(cell, 6, layers, two_way)).eval()
    rows = Rows.of(lengths)
    x, count = torch.randn(rows.total, 6), 2 if cell == "lstm" else 1
    start = Hidden(tuple(torch.randn(layers, len(rows), 6) for _ in range(count))) if goes_on else None
    unseen, ended = recurrent(x, rows, start)
    with watch_states(recurrent) as runs:
        states, _ = recurrent(x, rows, start)
    assert torch.equal(states, unseen)
    assert [(ran.layer, ran.backward) for ran in runs] == [
        (n, b) for n in range(layers) for b in (False, True)[: 1 + two_way]
    ]
    close(side_by_side(runs[-1 - two_way :], rows), states)
    if cell == "lstm":  # where each row ended, the cell too
        for number, parts in enumerate(runs[0].run()):
            close(parts[PARTS[cell].index("cell"), -1], ended.parts[1][0, number, : runs[0].width])


HOW = [*((cell, how) for cell in PARTS for how in ("plain", "residual")), ("lstm", "projected"), ("lstm", "clipped")]


@pytest.mark.parametrize("cell, how", HOW)
@ROWS
@pytest.mark.parametrize("backward", [False, True])
@torch.no_grad()
def test_the_states_of_a_way(cell, how, lengths, backward):
    torch.manual_seed(0)
    settings = {"residual": how == "residual", "cells": 9 if how in ("projected", "clipped") else None}
    settings |= {"cell_clip": 0.1, "projection_clip": 0.02} if how == "clipped" else {}
    way = Way(WayConfig(cell, 5, 5, 2, **settings), 5, backward=backward).eval()
    rows = Rows.of(lengths)
    x = torch.randn(rows.total, 5)
    kernel = []  # what the layers themselves give, before anything is added
    handles = [layer.register_forward_hook(lambda _, given, out: kernel.append(out[0])) for layer in way.layers]
    unseen = [states for states, _ in way.each(x, rows)]
    with watch_states(way) as runs:
        states = [states for states, _ in way.each(x, rows)]
    for handle in handles:
        handle.remove()
    assert all(torch.equal(*pair) for pair in zip(states, unseen, strict=True))
    for ran, given in zip(runs, kernel[2:], strict=True):
        given = torch.cat([row.flip(0) for row in rows.split(given)]) if backward else given
        found = torch.cat([parts[-1] for parts in ran.run()])
        close(found[:, :5], given)
        assert ran.projected == (5 if how in ("projected", "clipped") else None)
        assert not found[:, 5:].any()


@CELLS
@torch.no_grad()
def test_parts_read_one_after_the_other_are_the_whole(cell):
    torch.manual_seed(0)
    recurrent = Recurrent(RecurrentConfig(cell, 4, 2)).eval()
    x = torch.randn(5, 4)
    with watch_states(recurrent) as whole:
        recurrent(x, Rows.of([5]))
    with watch_states(recurrent) as parts:
        _, stood = recurrent(x[:2], Rows.of([2]))
        for token in x[2:]:
            _, stood = recurrent(token[None], Rows.of([1]), stood)
    for layer in range(2):
        close(states_of(parts[layer::2]), whole[layer].run()[0])


@torch.no_grad()
def test_the_gates_are_those_of_the_papers():
    """One step of each cell from nothing, with weights of one number, by hand."""
    x, i, f, g, o = torch.tensor(0.5), 0.3, -0.2, 0.7, 1.1
    for cell, weights in {"vanilla": [g], "gru": [i, f, g], "lstm": [i, f, g, o]}.items():
        recurrent = Recurrent(RecurrentConfig(cell, 1))
        for weight in recurrent.parameters():
            weight.zero_()
        recurrent.cells.weight_ih_l0.copy_(torch.tensor(weights)[:, None])
        with watch_states(recurrent) as runs:
            recurrent(x.view(1, 1), Rows.of([1]))
        found = dict(zip(runs[0].parts, runs[0].run()[0][:, 0, 0], strict=True))
        sigmoid, candidate = torch.sigmoid, torch.tanh(g * x)
        if cell == "vanilla":
            wanted = {"state": candidate}
        elif cell == "gru":
            update = sigmoid(f * x)
            wanted = {
                "reset": sigmoid(i * x),
                "update": update,
                "candidate": candidate,
                "state": (1 - update) * candidate,
            }
        else:
            inner = sigmoid(i * x) * candidate
            gates = {"input": sigmoid(i * x), "forget": sigmoid(f * x), "output": sigmoid(o * x)}
            wanted = gates | {"candidate": candidate, "cell": inner, "state": gates["output"] * torch.tanh(inner)}
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            close(found[name], value)


def test_nothing_is_left_behind():
    recurrent = Recurrent(RecurrentConfig("lstm", 4))
    with watch_states(recurrent) as runs:
        recurrent(torch.randn(2, 4), Rows.of([2]))
    recurrent(torch.randn(2, 4), Rows.of([2]))
    assert len(runs) == 1 and not runs[0].x.requires_grad
