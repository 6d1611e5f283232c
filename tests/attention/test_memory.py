"""A memory grows at the end of each row, and its rows can be chosen."""

from __future__ import annotations

import pytest
import torch

from regard.attention.memory import Memory
from regard.rows import Rows


def memory(lengths):
    rows = Rows.of(lengths)
    return Memory(torch.randn(rows.total, 2, 3), torch.randn(rows.total, 2, 3), rows)


@pytest.mark.parametrize(
    "before, more", [([2, 2], [1, 1]), ([2, 0, 3], [1, 1, 1]), ([1, 5], [4, 1]), ([1, 3], [3, 1]), ([0, 0], [2, 1])]
)
def test_growing_is_growing_each_row(before, more):
    first, second = memory(before), memory(more)
    grown = first.grown(second)
    assert grown.rows.lengths.tolist() == [a + b for a, b in zip(before, more, strict=True)]
    assert grown.rows.longest >= int(grown.rows.lengths.max())
    for part in ("k", "v"):
        rows = grown.rows.split(getattr(grown, part))
        ends = zip(first.rows.split(getattr(first, part)), second.rows.split(getattr(second, part)), strict=True)
        for got, (a, b) in zip(rows, ends, strict=True):
            assert torch.equal(got, torch.cat([a, b]))
        assert torch.equal(grown.rows.unpad(grown.rows.pad(getattr(grown, part))), getattr(grown, part))


@pytest.mark.parametrize("lengths", [[2, 0, 3], [2, 2, 2]])
def test_choosing_rows(lengths):
    whole = memory(lengths)
    part = whole.select(torch.tensor([2, 0, 0]))
    for got, row in zip(part.rows.split(part.k), (2, 0, 0), strict=True):
        assert torch.equal(got, whole.rows.split(whole.k)[row])
