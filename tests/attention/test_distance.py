"""Transformer-XL's distances: equal to the paper's formula written as loops, however rows and memories lie."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.attention.attend import by_definition
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL, Mask, band, prefix
from regard.attention.position import Distance
from regard.rows import Rows

WIDTH, HEADS, SIZE = 8, 2, 4

LAYOUTS = {  # lengths of the queries, and of the memory before them
    "even": ([3, 3], [0, 0]),
    "ragged": ([4, 1, 3], [0, 0, 0]),
    "even with a memory": ([2, 2], [5, 5]),
    "ragged with a memory": ([2, 1, 3], [4, 0, 2]),
    "even queries, ragged memory": ([2, 2], [1, 4]),
    "one step": ([1, 1, 1], [3, 0, 5]),
    "a row without queries": ([0, 3], [2, 1]),
    "no queries": ([0, 0], [2, 2]),
}

MASKS = {
    "causal": (CAUSAL, lambda row, i, j: j <= i),
    "as far back": (band(2, 0), lambda row, i, j: i - 2 <= j <= i),
    "full": (None, lambda row, i, j: True),
    "prefix": (prefix(torch.tensor([2, 3, 1])), lambda row, i, j: j <= i or j < [2, 3, 1][row]),
}


def waves(distance: int) -> Tensor:
    """R of the paper: sines and cosines of a distance."""
    angles = [distance / 10000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
    return torch.tensor([wave(angle) for angle in angles for wave in (math.sin, math.cos)], dtype=torch.float64)


def by_loops(attention: Attention, x: Tensor, past: Tensor, permitted) -> Tensor:  # (Q, W), (M, W) -> (Q, W)
    """One row, number by number: the four terms of the paper's equation, a to d."""
    position, seen, said = attention.position, torch.cat([past, x]), []
    for i, state in enumerate(x, len(past)):
        heads = []
        for h in range(HEADS):
            rows = slice(h * SIZE, (h + 1) * SIZE)
            query, logits = attention.q.weight[rows] @ state, []
            places = [j for j in range(len(seen)) if permitted(i, j)]
            for j in places:
                key, far = attention.k.weight[rows] @ seen[j], position.distance.weight[rows] @ waves(i - j)
                a, b, c, d = query @ key, query @ far, position.u[h] @ key, position.v[h] @ far
                logits.append((a + b + c + d) / math.sqrt(SIZE))
            weights = torch.stack(logits).softmax(0)
            heads.append(sum(w * (attention.v.weight[rows] @ seen[j]) for w, j in zip(weights, places, strict=True)))
        said.append(attention.out.weight @ torch.cat(heads))
    return torch.stack(said) if said else x


def made(dtype=torch.float64) -> Attention:
    torch.manual_seed(0)
    attention = Attention(WIDTH, AttentionConfig(HEADS, bias=False, positions="distance")).to(dtype)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    return attention


def looked(attention: Attention, x: Tensor, past: Tensor, rows: Rows, before: Rows, mask: Mask | None) -> Tensor:
    memory = attention.remember(x, rows)
    memory = attention.remember(past, before).grown(memory) if before.total else memory
    return attention(x, memory, rows, mask)


def gradients(out: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    total = (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum()
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_equals_the_formula_as_loops(layout, mask_name):
    attention, (mask, permitted) = made(), MASKS[mask_name]
    rows, before = map(Rows.of, LAYOUTS[layout])
    x = torch.randn(rows.total, WIDTH, dtype=torch.float64, requires_grad=True)
    past = torch.randn(before.total, WIDTH, dtype=torch.float64, requires_grad=True)
    out = looked(attention, x, past, rows, before, mask)
    parts = enumerate(zip(rows.split(x), before.split(past), strict=True))
    wanted = torch.cat([by_loops(attention, *row, lambda i, j, b=b: permitted(b, i, j)) for b, row in parts])
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    if rows.total:
        inputs = [x, past, *attention.parameters()]
        for got, right in zip(gradients(out, inputs), gradients(wanted, inputs), strict=True):
            torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_even_rows_are_not_gathered(monkeypatch):
    """Where rows are even, the numbers are those of the gather that ragged rows need."""
    position, q = made(torch.float32).position, torch.randn(6, HEADS, SIZE)
    rows, memory_rows = Rows.even(2, 3), Rows.even(2, 7)
    shifted = position.bias(q, rows, memory_rows, None)
    assert shifted.untyped_storage().nbytes() == 2 * HEADS * 3 * (7 + 3 + 1) * 4  # the products alone, and no copy
    monkeypatch.setattr(Rows, "is_even", False)
    torch.testing.assert_close(shifted, position.bias(q, Rows.of([3, 3]), Rows.of([7, 7]), None))


@torch.no_grad()
def test_far_distances_can_be_alike():
    position = made(torch.float32).position
    position.furthest = 3
    near = position.vectors(torch.tensor([-3, 2, 3]))
    far = position.vectors(torch.tensor([-9, 2, 9]))
    assert torch.equal(near, far) and not torch.allclose(near[1], near[2])


@torch.no_grad()
def test_half_precision_stays_what_it_is_and_sharp():
    position, q = made(torch.float32).position, torch.randn(4, HEADS, SIZE)
    rows, memory_rows = Rows.even(1, 4), Rows.even(1, 1000)
    wanted = position.bias(q, rows, memory_rows, CAUSAL)[..., :990]
    got = position.bfloat16().bias(q.bfloat16(), rows, memory_rows, CAUSAL)[..., :990]
    assert got.dtype == position.queries(q.bfloat16(), rows.at).dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted, rtol=0.05, atol=0.15)


def test_the_padded_kernel_agrees_with_the_definition():
    attention, rows, before = made(), Rows.of([2, 4]), Rows.of([3, 1])
    x, past = torch.randn(6, WIDTH).double(), torch.randn(4, WIDTH).double()
    memory = attention.remember(past, before).grown(attention.remember(x, rows))
    q = attention.split(attention.q(x))
    bias = attention.position.bias(q, rows, memory.rows, CAUSAL)
    by_hand = by_definition(
        attention.position.queries(q, rows.at), memory, rows, attention.score, CAUSAL, bias, 0.0
    )  # fmt: skip
    torch.testing.assert_close(attention(x, memory, rows, CAUSAL), attention.out(by_hand.flatten(1)))
    assert isinstance(attention.position, Distance)
