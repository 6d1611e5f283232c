"""Rows laid end to end: padding and back, places, choosing rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.rows import Rows, Tokens

lengths_of_rows = st.lists(st.integers(0, 6), max_size=6)
some_examples = settings(max_examples=60, deadline=None)


def numbered(rows: Rows, width=2):
    return torch.arange(rows.total * width, dtype=torch.float32).view(rows.total, width)


@some_examples
@given(lengths_of_rows)
def test_places_are_those_of_plain_lists(lengths):
    rows = Rows.of(lengths)
    assert (len(rows), rows.total, rows.longest) == (len(lengths), sum(lengths), max(lengths, default=0))
    assert rows.offsets.dtype == torch.int32
    assert rows.lengths.tolist() == lengths
    assert rows.row.tolist() == [row for row, length in enumerate(lengths) for _ in range(length)]
    assert rows.at.tolist() == [place for length in lengths for place in range(length)]
    assert rows.real.sum(-1).tolist() == lengths
    assert rows.is_even == (len(set(lengths)) <= 1)
    assert rows.first.tolist() == [sum(lengths[:row]) for row in range(len(lengths))]
    assert rows.last.tolist() == [sum(lengths[: row + 1]) - 1 for row in range(len(lengths))]


@some_examples
@given(lengths_of_rows)
def test_unpadding_undoes_padding(lengths):
    rows = Rows.of(lengths)
    x = numbered(rows)
    grid = rows.pad(x)
    assert grid.shape == (len(rows), rows.longest, 2)
    assert not grid[~rows.real].any()
    assert torch.equal(rows.unpad(grid), x)
    for row, part in enumerate(rows.split(x)):
        assert torch.equal(grid[row, : len(part)], part)


@pytest.mark.parametrize("lengths", [[2, 3, 1], [2, 2]])
def test_padding_hands_gradients_back(lengths):
    rows = Rows.of(lengths)
    x = numbered(rows).requires_grad_()
    (gradient,) = torch.autograd.grad(rows.unpad(rows.pad(x) * 3).sum(), x)
    assert torch.equal(gradient, torch.full_like(x, 3))


@some_examples
@given(lengths_of_rows.filter(bool).flatmap(lambda l: st.tuples(st.just(l), st.lists(st.integers(0, len(l) - 1)))))
def test_chosen_rows_are_those_of_a_plain_list(case):
    lengths, chosen = case
    rows = Rows.of(lengths)
    x = numbered(rows)
    tokens, fewer = rows.tokens_of(torch.tensor(chosen, dtype=torch.long))
    assert fewer.lengths.tolist() == [lengths[row] for row in chosen]
    assert fewer.total == len(tokens)
    whole = rows.split(x)
    for got, row in zip(fewer.split(x[tokens]), chosen, strict=True):
        assert torch.equal(got, whole[row])


def test_even_rows_equal_rows_of_equal_lengths():
    even, same = Rows.even(3, 4), Rows.of([4, 4, 4])
    assert torch.equal(even.offsets, same.offsets) and even.offsets.dtype == same.offsets.dtype
    assert (even.total, even.longest, even.is_even) == (same.total, same.longest, True)


def test_lengths_may_be_a_tensor():
    assert Rows.of(torch.tensor([2, 0, 1])).lengths.tolist() == [2, 0, 1]


def test_a_property_is_computed_once():
    rows = Rows.of([2, 1])
    assert rows.slots is rows.slots


@some_examples
@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4))
def test_tokens_come_back_as_lists(lists):
    tokens = Tokens.of(lists)
    assert tokens.tolist() == lists and len(tokens) == len(lists) and tokens.ids.dtype == torch.long
    assert tokens.to("cpu").tolist() == lists
