"""Rotary positions: only the distance matters, and half precision does not blur it."""

from __future__ import annotations

import pytest
import torch

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.position import Rotary
from regard.errors import UsageProblem


def products(rotary: Rotary, q, k, at_q: int, at_k: int):
    turned = rotary.queries(q, torch.tensor([at_q])), rotary.keys(k, torch.tensor([at_k]))
    return (turned[0] * turned[1]).sum(-1)


def test_only_the_distance_matters():
    torch.manual_seed(0)
    rotary, q, k = Rotary(2, 8), torch.randn(1, 2, 8), torch.randn(1, 2, 8)
    torch.testing.assert_close(products(rotary, q, k, 9, 4), products(rotary, q, k, 105, 100), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(products(rotary, q, k, 9, 4), products(rotary, q, k, 9, 5), atol=1e-2)


def test_the_first_place_is_not_turned_and_no_place_is_stretched():
    rotary, x = Rotary(2, 8), torch.randn(5, 2, 8)
    assert torch.equal(rotary.queries(x, torch.zeros(5, dtype=torch.long)), x)
    torch.testing.assert_close(rotary.queries(x, torch.arange(5) * 50).norm(dim=-1), x.norm(dim=-1))


def test_a_pair_is_turned_by_the_papers_angle():
    x = torch.tensor([[[1.0, 1.0, 0.0, 0.0]]])  # two pairs, (1, 0) each: numbers i and i + D / 2 belong together
    got = Rotary(1, 4).queries(x, torch.tensor([3]))[0, 0]
    angles = torch.tensor([3.0, 3 / 10000**0.5])
    torch.testing.assert_close(got, torch.cat([angles.cos(), angles.sin()]))


def test_far_places_stay_sharp_in_a_model_of_half_precision():
    rotary = Rotary(2, 8)
    x, far = torch.randn(1, 2, 8).bfloat16(), torch.tensor([1000])
    wanted = rotary.queries(x.float(), far)
    got = rotary.bfloat16().queries(x, far)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=0.03)


def test_pairs_need_an_even_size():
    with pytest.raises(UsageProblem, match="size 5"):
        Attention(10, AttentionConfig(2, positions="rotary"))
