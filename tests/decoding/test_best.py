"""The best of many scores are found as by sorting them all."""

from __future__ import annotations

import pytest
import torch

from regard.decoding.best import BLOCK, best


@pytest.mark.parametrize("width", [5, BLOCK, 20 * BLOCK, 20 * BLOCK + 7, 40 * BLOCK - 1])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_best_are_the_first_of_the_sorted(count, width):
    torch.manual_seed(0)
    for scores in (torch.randn(6, width), torch.randn(1, width), torch.randn(0, width)):
        values, places = best(scores, count)
        wanted = scores.sort(descending=True)
        assert torch.equal(values, wanted.values[:, :count]) and torch.equal(places, wanted.indices[:, :count])


def test_of_equals_the_first_is_the_best_one():
    scores = torch.randint(3, (50, 30 * BLOCK + 3)).float()
    assert torch.equal(best(scores, 1)[1].squeeze(-1), scores.argmax(-1))


def test_most_may_be_impossible():
    scores = torch.full((2, 30 * BLOCK), -torch.inf)
    scores[:, 77], scores[:, 1000] = 1.0, 2.0
    values, places = best(scores, 3)
    assert values.tolist() == [[2.0, 1.0, -torch.inf]] * 2 and places[:, :2].tolist() == [[1000, 77]] * 2
