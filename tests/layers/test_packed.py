"""Products with weights that are laid out for the CPU: the same numbers, as long as the weights are the same."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F

from regard.layers import packed as part
from regard.layers.packed import LAYOUTS, packed

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@pytest.fixture
def line():
    torch.manual_seed(0)
    return torch.nn.Linear(256, 300)


def laid_out(weight: torch.Tensor) -> bool:
    return id(weight) in LAYOUTS and LAYOUTS[id(weight)][0]() is weight


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 7, 64, 513])
def test_the_product_is_the_same(rows, bias):
    line, x = torch.nn.Linear(256, 300, bias=bias), torch.randn(rows, 256)
    with torch.inference_mode():
        wanted = line(x)
        with packed("cpu"):
            torch.testing.assert_close(line(x), wanted, rtol=1e-5, atol=1e-5)
    assert laid_out(line.weight) == (rows in part.ROWS)


@torch.inference_mode()
def test_a_weight_that_does_not_tell_when_it_changes_is_not_laid_out(line):
    weight, x = line.weight.clone(), torch.randn(4, 256)  # of inference mode
    with packed("cpu"):
        assert torch.equal(F.linear(x, weight), x @ weight.T) and not laid_out(weight)


@torch.no_grad()
def test_weights_that_change_are_laid_out_again(line):
    x = torch.randn(4, 256)
    with packed("cpu"):
        before = line(x)
        line.weight.mul_(2.0)
        line.bias.mul_(2.0)
        torch.testing.assert_close(line(x), 2 * before, rtol=1e-5, atol=1e-5)
        line.weight.data = torch.zeros(300, 256)  # they may also lie elsewhere
        torch.testing.assert_close(line(x), line.bias.expand(4, -1))


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_weights_that_learn_are_laid_out_again(line, how):
    """torch does not count the steps of a fused optimizer: what was laid out once would be read for ever."""
    optimizer, x = torch.optim.AdamW(line.parameters(), 0.1, **how), torch.randn(4, 256)
    for _ in range(2):
        line(x).square().sum().backward()
        optimizer.step()
        with packed("cpu"), torch.no_grad():
            torch.testing.assert_close(line(x), x @ line.weight.T + line.bias, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_layout_goes_with_its_weights(line):
    with packed("cpu"):
        line(torch.randn(4, 256))
    key = id(line.weight)
    assert key in LAYOUTS
    del line.weight
    gc.collect()
    assert key not in LAYOUTS


def test_where_gradients_go_back_nothing_changes(line):
    with packed("cpu"):
        line(torch.randn(4, 256)).sum().backward()
    assert line.weight.grad is not None and not laid_out(line.weight)


@torch.no_grad()
def test_there_is_an_end_to_what_is_laid_out(line, monkeypatch):
    monkeypatch.setattr(part, "MOST", 1000)
    x = torch.randn(4, 256)
    with packed("cpu"):
        assert torch.equal(line(x), F.linear(x, line.weight, line.bias)) and not laid_out(line.weight)


@torch.no_grad()
def test_other_precisions_are_left_alone(line):
    half, x = line.to(torch.bfloat16), torch.randn(4, 256, dtype=torch.bfloat16)
    with packed("cpu"):
        assert torch.equal(half(x), F.linear(x, half.weight, half.bias)) and not laid_out(half.weight)
