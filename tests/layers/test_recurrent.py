"""Recurrent layers over rows equal each row run alone, cell by cell."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import UsageProblem
from regard.layers.recurrent import Hidden, LaidOut, Recurrent, RecurrentConfig
from regard.rows import Rows, Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

CELLS = {"vanilla": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
WIDTH = 6


def one_way(layer: Recurrent, number: int, way: int, x, start):
    """One layer, one direction, one row, by torch's single cell: its states in reading order, and where it ended."""
    size = WIDTH // layer.ways
    cell = CELLS[layer.config.cell](x.shape[-1], size)
    suffix = f"_l{number}" + ("_reverse" if way else "")
    cell.load_state_dict({name: getattr(layer.cells, name + suffix) for name in cell.state_dict()})
    parts, states = start, []
    for token in x.flip(0) if way else x:
        after = cell(token[None], parts if layer.config.cell == "lstm" else parts[0])
        parts = after if isinstance(after, tuple) else (after,)
        states.append(parts[0][0])
    states = torch.stack(states)
    return (states.flip(0) if way else states), parts


def one_row(layer: Recurrent, x, row: int, start: Hidden | None):
    count, size, ended = (2 if layer.config.cell == "lstm" else 1), WIDTH // layer.ways, []
    for number in range(layer.config.layers):
        outs, ends = [], []
        for way in range(layer.ways):
            begin = [torch.zeros(1, size)] * count
            if start is not None:
                begin = [part[number, row, way * size : (way + 1) * size][None] for part in start.parts]
            states, end = one_way(layer, number, way, x, tuple(begin))
            outs.append(states)
            ends.append(end)
        x = torch.cat(outs, -1)
        ended.append([torch.cat(parts, -1)[0] for parts in zip(*ends, strict=True)])
    return x, [torch.stack(parts) for parts in zip(*ended, strict=True)]  # each (layers, W)


@torch.no_grad()
@pytest.mark.parametrize("started", [False, True], ids=["from nothing", "from a state"])
@pytest.mark.parametrize("lengths", [[3, 1, 5, 2], [4, 4], [3]], ids=str)
@pytest.mark.parametrize("two_way", [False, True], ids=["one way", "two ways"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_rows_equal_each_row_alone(cell, layers, two_way, lengths, started):
    torch.manual_seed(0)
    layer, rows = Recurrent(RecurrentConfig(cell, WIDTH, layers, two_way, 0.3)).eval(), Rows.of(lengths)
    x, count = torch.randn(rows.total, WIDTH), 2 if cell == "lstm" else 1
    start = Hidden(tuple(torch.randn(layers, len(rows), WIDTH) for _ in range(count))) if started else None
    states, ended = layer(x, rows, start)
    for row, (got, alone) in enumerate(zip(rows.split(states), rows.split(x), strict=True)):
        wanted, parts = one_row(layer, alone, row, start)
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
        for got_part, part in zip(ended.parts, parts, strict=True):
            torch.testing.assert_close(got_part[:, row], part, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengths", [[3, 4, 5, 4], [1, 9, 1], [4, 4]], ids=["filled up", "not worth it", "even"])
@pytest.mark.parametrize("cell", CELLS)
def test_states_alone_are_the_same(cell, lengths):
    """And so are gradients, whether rows are filled up or not."""
    torch.manual_seed(0)
    layer, rows = Recurrent(RecurrentConfig(cell, WIDTH, 2)).train(), Rows.of(lengths)
    x = torch.randn(rows.total, WIDTH, requires_grad=True)
    start = Hidden(tuple(torch.randn(2, len(rows), WIDTH) for _ in range(2 if cell == "lstm" else 1)))
    one, other = layer.states(x, rows, start), layer(x, rows, start)[0]
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    asked = [x, *layer.parameters()]
    pairs = zip(*(torch.autograd.grad(states.square().sum(), asked) for states in (one, other)), strict=True)
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("two_way", [False, True], ids=["one way", "two ways"])
@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_row_is_the_same_alone_and_in_any_batch(cell, two_way):
    layer = Recurrent(RecurrentConfig(cell, WIDTH, 2, two_way))
    _, alone = layer(torch.zeros(0, WIDTH), Rows.of([0]))
    for lengths in ([0, 0], [0, 1], [2, 0, 3]):
        rows = Rows.of(lengths)
        states, ended = layer(torch.randn(rows.total, WIDTH), rows)
        assert states.shape == (rows.total, WIDTH)
        for part, wanted in zip(ended.parts, alone.parts, strict=True):
            torch.testing.assert_close(part[:, lengths.index(0)], wanted[:, 0])


@pytest.mark.parametrize("two_way", [False, True], ids=["one way", "two ways"])
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_each_row_alone(cell, two_way):
    """Of what is read, and of where rows stood before."""
    torch.manual_seed(0)
    layer, rows = Recurrent(RecurrentConfig(cell, WIDTH, 2, two_way)), Rows.of([3, 1, 5])
    x = torch.randn(rows.total, WIDTH, requires_grad=True)
    stood = [torch.randn(2, len(rows), WIDTH, requires_grad=True) for _ in range(2 if cell == "lstm" else 1)]

    def asked(x, rows, stood):
        states, ended = layer(x, rows, Hidden(tuple(stood)))
        return states.square().sum() + sum(part.sin().sum() for part in ended.parts)

    alone = sum(
        asked(some, Rows.of([len(some)]), [part[:, row : row + 1] for part in stood])
        for row, some in enumerate(rows.split(x))
    )
    for got, wanted in zip(
        *(torch.autograd.grad(loss, [x, *stood]) for loss in (asked(x, rows, stood), alone)), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengths", [[3, 1, 5, 2], [2, 0, 3], [4, 4], [0], []], ids=str)
def test_rows_laid_out_beforehand_are_the_same(lengths):
    """In one tensor, of which all else is a part, so that one copy takes all of it along."""
    rows = Rows.of(lengths)
    laid = LaidOut.of_rows(rows).to("cpu")
    moved = Tokens(torch.zeros(rows.total, dtype=torch.long), laid).to("cpu").rows
    for known in (laid, moved):
        assert (known.total, known.longest, len(known)) == (rows.total, rows.longest, len(rows))
        for name in ("offsets", "lengths", "sizes", "at", "slots", "row", "real"):
            one, other = getattr(known, name), getattr(rows, name)
            assert torch.equal(one, other) and one.dtype == other.dtype, name
        order, back = known.packing.order, known.packing.back
        assert torch.equal(order[back], torch.arange(rows.total))
        kept = {"offsets", "lengths", "at", "slots"}
        storage = known.numbers.untyped_storage().data_ptr()
        assert all(getattr(known, name).untyped_storage().data_ptr() == storage for name in kept)


@torch.no_grad()
def test_rows_laid_out_are_read_as_others_are():
    torch.manual_seed(0)
    layer, rows = Recurrent(RecurrentConfig("lstm", WIDTH, 2, True)).eval(), Rows.of([3, 0, 5, 1])
    x = torch.randn(rows.total, WIDTH)
    (states, ended), (again, there) = layer(x, rows), layer(x, LaidOut.of_rows(rows))
    assert torch.equal(states, again) and all(map(torch.equal, ended.parts, there.parts))


def test_no_rows_at_all():
    states, ended = Recurrent(RecurrentConfig(width=WIDTH))(torch.zeros(0, WIDTH), Rows.of([]))
    assert states.shape == (0, WIDTH) and ended.parts[0].shape == (1, 0, WIDTH)


def test_a_state_can_be_chosen_from():
    hidden = Hidden((torch.arange(6).view(1, 3, 2),))
    assert hidden.select(torch.tensor([2, 0, 2])).parts[0].tolist() == [[[4, 5], [0, 1], [4, 5]]]


def test_two_ways_need_an_even_width():
    with pytest.raises(UsageProblem, match="width 7"):
        Recurrent(RecurrentConfig(width=7, two_way=True))
