"""The shapes that batches are rounded up to; what is recorded needs a GPU: tests/gpu/test_gpu_graphs.py."""

from __future__ import annotations

import pytest
import torch

from regard.models.bert import bert
from regard.models.encoder import Encoder
from regard.rows import Rows, Tokens
from regard.training.graphs import Shape, doubled, replayed, rounded


@pytest.mark.parametrize(("number", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024)])
def test_doubled(number, power):
    assert doubled(number) == power


def test_few_shapes_and_little_filling():
    assert all(n <= rounded(n) <= max(1.126 * n, n + 7) for n in range(1, 8192))
    assert len({rounded(n) for n in range(256, 8192)}) <= 5 * 8 + 1


@pytest.mark.parametrize("lengths", [[3], [5, 0, 7], [9] * 31, [2] * 7, [130, 1], [31, 30, 4, 5, 6, 7, 1]])
def test_the_rows_come_first_then_empty_ones_then_one_of_filling(lengths):
    rows = Rows.of(lengths)
    shape = Shape.of(rows)
    offsets = shape.offsets(rows)
    assert len(offsets) == shape.rows + 1 and shape.rows % 8 == 0
    sizes = offsets.diff().tolist()
    assert sizes[: len(lengths)] == lengths
    assert not any(sizes[len(lengths) : -1])
    assert sizes[-1] == shape.tokens - sum(lengths) > 0
    assert max(sizes) <= shape.longest
    assert not Rows(offsets, shape.tokens, shape.longest).is_even


def test_many_rows_of_one_length_are_a_shape_as_they_are():
    rows = Rows.even(40, 65)
    shape = Shape.of(rows)
    assert shape == Shape(40 * 65, 40, 65) and torch.equal(shape.offsets(rows), rows.offsets)


@pytest.mark.skipif(torch.cuda.is_available(), reason="where there is a GPU, graphs are used")
def test_on_a_cpu_layers_are_launched_as_ever():
    model = Encoder(bert(2, 32, 2, 50)).eval()
    tokens = Tokens.of([[7, 8, 9], [4]])
    wanted = model(tokens)
    with replayed(model):
        assert torch.equal(model(tokens), wanted)
