"""One way of a recurrent language model: each row read by torch's own layers, alone; parts; and AWD-LSTM's dropouts."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UsageProblem
from regard.layers.recurrent import CELLS, Hidden, Layer, Packing, Way, WayConfig, locked, reversed_places
from regard.rows import Rows

LENGTHS = [[3, 1, 5, 2], [4, 4], [0, 3, 0, 2], [3], [0, 0], []]
CONFIGS = {
    "vanilla": WayConfig("vanilla", 6, 5, 3),
    "gru": WayConfig("gru", 6, 5, 3),
    "lstm": WayConfig("lstm", 6, 5, 3),
    "projected": WayConfig("lstm", 6, 6, 3, cells=9, residual=True),
    "clipped": WayConfig("lstm", 6, 5, 3, cell_clip=1e9),  # which nothing reaches: the steps are the kernel's
    "clipped projections": WayConfig("lstm", 6, 6, 3, cells=9, residual=True, cell_clip=1e9, projection_clip=1e9),
}
INPUTS = 4


@pytest.fixture(params=CONFIGS)
def config(request) -> WayConfig:
    torch.manual_seed(0)
    return CONFIGS[request.param]


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def alone(way: Way, x, row: int, was) -> list[tuple[torch.Tensor, tuple[torch.Tensor, ...]]]:
    """One row through torch's modules, layer by layer."""
    found = []
    for number, layer in enumerate(way.layers):
        parts = [part[:, row : row + 1].contiguous() for part in was[number].parts]
        states, after = layer.cells(x[None], tuple(parts) if len(parts) == 2 else parts[0])
        x = states[0] + x if way.config.residual and number else states[0]
        found.append((x, after if isinstance(after, tuple) else (after,)))
    return found


def some_state(way: Way, count: int) -> list[Hidden]:
    parts = [layer.nothing(count, torch.zeros(())).parts for layer in way.layers]
    return [Hidden(tuple(torch.randn_like(part) for part in layer)) for layer in parts]


@torch.no_grad()
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_rows_are_each_row_alone(config, lengths):
    way, rows = Way(config, INPUTS).eval(), Rows.of(lengths)
    x, was = torch.randn(rows.total, INPUTS), some_state(way, len(rows))
    layers = list(way.each(x, rows, was))
    assert [states.shape for states, _ in layers] == [(rows.total, width) for width in config.widths]
    for row, inputs in enumerate(rows.split(x)):
        if not len(inputs):
            continue
        for (states, now), (wanted, after) in zip(layers, alone(way, inputs, row, was), strict=True):
            close(rows.split(states)[row], wanted)
            for part, right in zip(now.parts, after, strict=True):
                close(part[:, row], right[:, 0])


@torch.no_grad()
def test_cells_and_projections_are_held_within_their_bounds():
    torch.manual_seed(0)
    free = Way(WayConfig("lstm", 6, 6, 1, cells=9), INPUTS).eval()
    x, rows = 9 * torch.randn(8, INPUTS), Rows.of([5, 3])
    bound = Way(WayConfig("lstm", 6, 6, 1, cells=9, cell_clip=0.3, projection_clip=0.05), INPUTS).eval()
    bound.load_state_dict(free.state_dict())
    [(states, now)], [(others, then)] = list(bound.each(x, rows)), list(free.each(x, rows))
    assert now.parts[1].abs().max() == 0.3 < then.parts[1].abs().max()
    assert states.abs().max() == torch.tensor(0.05) < others.abs().max()


@torch.no_grad()
@pytest.mark.parametrize("cuts", [[2, 1, 0, 4], [0, 0, 0, 0], [3, 3, 3, 3]], ids=str)
def test_what_is_read_in_two_parts_is_read_at_once(config, cuts):
    """A row of which one part is empty among them; one that has no tokens at all stays where it stood."""
    way, lengths = Way(config, INPUTS).eval(), [5, 3, 3, 4]
    whole = Rows.of(lengths)
    x = torch.randn(whole.total, INPUTS)
    cuts = [min(pair) for pair in zip(cuts, lengths, strict=True)]
    first = whole.at < torch.tensor(cuts)[whole.row]
    wanted = list(way.each(x, whole))
    early = list(way.each(x[first], Rows.of(cuts)))
    rest = Rows.of([length - cut for length, cut in zip(lengths, cuts, strict=True)])
    late = list(way.each(x[~first], rest, [now for _, now in early]))
    for (states, now), (one, _), (two, then) in zip(wanted, early, late, strict=True):
        close(one, states[first])
        close(two, states[~first])
        for part, right in zip(then.parts, now.parts, strict=True):
            close(part, right)


@torch.no_grad()
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_backwards_is_forwards_on_rows_turned_round(config, lengths):
    rows = Rows.of(lengths)
    back, forth = Way(config, INPUTS, backward=True).eval(), Way(config, INPUTS).eval()
    forth.load_state_dict(back.state_dict())
    x = torch.randn(rows.total, INPUTS)
    turned = torch.cat([row.flip(0) for row in rows.split(x)]) if lengths else x
    for (states, _), (wanted, _) in zip(back.each(x, rows), forth.each(turned, rows), strict=True):
        for got, right in zip(rows.split(states), rows.split(wanted), strict=True):
            close(got, right.flip(0))


def test_turning_round_twice_is_nothing():
    places = reversed_places(Rows.of([3, 0, 2]))
    assert places.tolist() == [2, 1, 0, 4, 3]
    assert places[places].tolist() == [0, 1, 2, 3, 4]


def test_a_packing_has_the_places_in_order_the_longest_row_first():
    packing = Packing.of(Rows.of([1, 3, 0, 2]))  # tokens 0; 1 2 3; 4 5
    assert packing.order.tolist() == [1, 4, 0, 2, 5, 3]
    assert packing.sizes.tolist() == [3, 2, 1] and packing.chosen.tolist() == [1, 3, 0]
    assert packing.order[packing.back].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("lengths", [[3, 1, 4], [3, 3]], ids=str)
def test_locked_dropout_is_the_same_at_every_place_of_a_row(lengths):
    torch.manual_seed(0)
    rows = Rows.of(lengths)
    dropped = locked(torch.ones(rows.total, 400), rows, 0.25, training=True)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    masks = [row.unique(dim=0) for row in rows.split(dropped)]
    assert all(len(mask) == 1 for mask in masks) and not torch.equal(masks[0], masks[1])
    assert 0.2 < (masks[0] == 0).float().mean() < 0.3
    x = torch.randn(rows.total, 4)
    assert locked(x, rows, 0.5, training=False) is x and locked(x, rows, 0.0, training=True) is x


@pytest.mark.parametrize("cell", CELLS)
def test_weight_dropout_touches_the_weights_from_state_to_state_alone(cell):
    torch.manual_seed(0)
    layer = Layer(WayConfig(cell, weight_dropout=0.5), 4, 20)
    own = layer.cells.all_weights[0]
    used = layer.weights()
    kept = used[1] != 0
    assert 0.4 < kept.float().mean() < 0.6
    close(used[1][kept], 2 * own[1][kept])
    assert all(used[number] is own[number] for number in (0, 2, 3))
    assert not torch.equal(kept, layer.weights()[1] != 0)  # drawn anew
    assert torch.equal(layer.eval().weights()[1], own[1])


@pytest.mark.parametrize("lengths", [[3, 1, 4], [3, 3]], ids=str)
def test_one_draw_of_weights_serves_all_places_and_its_gradient_comes_back(lengths):
    torch.manual_seed(0)
    layer, rows = Layer(WayConfig("lstm", weight_dropout=0.5), 4, 5), Rows.of(lengths)
    x, start = torch.randn(rows.total, 4), layer.nothing(len(rows), torch.zeros(()))
    packing = None if rows.is_even else Packing.of(rows)
    torch.manual_seed(1)
    states, _ = layer(x, rows, start, packing)
    torch.manual_seed(1)
    drawn = layer.weights()[1].detach()
    states.sum().backward()
    grown = layer.cells.weight_hh_l0.grad
    assert (grown[drawn == 0] == 0).all() and (grown[drawn != 0] != 0).any()
    with torch.no_grad():
        layer.cells.weight_hh_l0.copy_(drawn)
        close(layer.eval()(x, rows, start, packing)[0], states)


@pytest.mark.parametrize(
    "config, told",
    [
        (WayConfig("gru", 6, 6, 1, cells=9), "only those of an LSTM"),
        (WayConfig("lstm", 6, 6, 1, cells=6), "fewer than they are"),
        (WayConfig("lstm", 6, 5, 2, residual=True), "equally wide"),
    ],
)
def test_layers_that_cannot_be_are_told(config, told):
    with pytest.raises(UsageProblem, match=told):
        Way(config, INPUTS)


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"cell_clip": 0.0}, "cell_clip=0.0: give a number above 0"),
        ({"cell": "gru", "cell_clip": 3.0}, "only an LSTM's"),
        ({"projection_clip": 3.0}, "without cells there is no projection to clip"),
    ],
)
def test_bounds_that_cannot_be_are_told(settings, told):
    with pytest.raises(UsageProblem, match=told):
        WayConfig(**settings)


@torch.no_grad()
def test_a_state_in_another_precision_can_be_read_on_from():
    way, rows = Way(WayConfig("lstm", 6, 6, 2), INPUTS).eval(), Rows.of([2, 1])
    was = [Hidden(tuple(part.bfloat16() for part in layer.parts)) for layer in some_state(way, 2)]
    assert all(states.dtype == torch.float32 for states, _ in way.each(torch.randn(3, INPUTS), rows, was))
