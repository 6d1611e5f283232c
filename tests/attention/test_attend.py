"""Which kernel is taken: on a CPU rows one after the other, where nothing but a band depends on the row."""

import pytest
import torch

from regard.attention import attend as kernels
from regard.attention.attend import attend, by_definition, by_padding, by_rows, rows_can
from regard.attention.mask import CAUSAL, FULL, prefix, window
from regard.attention.memory import Memory
from regard.attention.score import make_score
from regard.rows import Rows

HEADS, SIZE = 2, 4
SCORE = make_score("scaled-dot", SIZE)


def question(lengths, memory_lengths=None):
    torch.manual_seed(0)
    rows, memory_rows = Rows.of(lengths), Rows.of(memory_lengths or lengths)
    q = torch.randn(rows.total, HEADS, SIZE)
    k, v = torch.randn(2, memory_rows.total, HEADS, SIZE)
    return q, Memory(k, v, memory_rows), rows


@pytest.mark.parametrize("mask", [None, FULL, CAUSAL, window(2)])
def test_ragged_rows_are_taken_one_after_the_other(mask):
    q, memory, rows = question([5, 2, 2, 2, 7])
    assert rows_can(q, memory, rows, mask, None, 0.0)
    assert torch.equal(attend(q, memory, rows, score=SCORE, mask=mask), by_rows(q, memory, rows, SCORE, mask))


def test_other_ways_are_left_to_padding():
    q, memory, rows = question([3, 1])
    assert not rows_can(q, memory, rows, prefix(torch.tensor([1, 1])), None, 0.0)
    assert not rows_can(q, memory, rows, None, torch.zeros(1, HEADS, 3, 3), 0.0)
    assert not rows_can(q, memory, rows, None, None, 0.1)
    assert not rows_can(q.to("meta"), memory, rows, None, None, 0.0)
    assert not rows_can(*question([3, 3], [4, 4]), None, None, 0.0)  # a rectangle as it lies


def test_neighbours_that_are_equally_long_are_read_together(monkeypatch):
    read = []

    def padding(q, memory, rows, *rest):
        read.append((len(rows), rows.longest, memory.rows.longest))
        return by_padding(q, memory, rows, *rest)

    monkeypatch.setattr(kernels, "by_padding", padding)
    by_rows(*question([4, 4, 1, 1, 1, 4], [4, 4, 1, 1, 2, 4]), SCORE, None)
    assert read == [(2, 4, 4), (2, 1, 1), (1, 1, 2), (1, 4, 4)]


@pytest.mark.parametrize("lengths", [[600, 513, 1], [1] * 70 + [2], [0, 3, 0, 0, 65]])
@pytest.mark.parametrize("mask", [None, CAUSAL, window(3)])
def test_rows_long_and_short_have_the_values_and_gradients_of_the_definition(mask, lengths):
    q, memory, rows = question(lengths)
    found = []
    for kernel in (by_rows, lambda *asked: by_definition(*asked, None, 0.0)):
        inputs = [x.clone().requires_grad_() for x in (q, memory.k, memory.v)]
        out = kernel(inputs[0], Memory(*inputs[1:], rows), rows, SCORE, mask)
        found.append([out, *torch.autograd.grad((out * out.detach().sin()).sum(), inputs)])
    for got, right in zip(*found, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-5)
