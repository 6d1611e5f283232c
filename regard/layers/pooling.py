"""One vector for a row out of the states of its tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, inf

from regard.rows import Rows


def mean(states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, W)
    exact = states.to(torch.promote_types(states.dtype, torch.float32))  # a GPU would add up bf16 in bf16
    total = exact.new_zeros(len(rows), states.shape[-1]).index_add(0, rows.row, exact)
    return (total / rows.lengths[:, None].clamp(min=1)).to(states.dtype)


def mean_sqrt_len(states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, W)
    """The sum divided by the square root of the number of tokens."""
    return mean(states, rows) * rows.lengths[:, None].sqrt().to(states.dtype)


def weighted_mean(states: Tensor, rows: Rows, positions: Tensor | None = None) -> Tensor:  # (N, W) -> (B, W)
    """The mean in which the first token weighs 1, the second 2 and so on (Muennighoff 2022, SGPT).  `positions` (N,)
    are those of the tokens where the rows have lost their beginning."""
    exact = states.to(torch.promote_types(states.dtype, torch.float32))
    weights = (rows.at if positions is None else positions).to(exact.dtype)[:, None] + 1  # (N, 1)
    total = exact.new_zeros(len(rows), states.shape[-1]).index_add(0, rows.row, exact * weights)
    return (total / exact.new_zeros(len(rows), 1).index_add(0, rows.row, weights).clamp(min=1)).to(states.dtype)


def largest(states: Tensor, rows: Rows) -> Tensor:
    start = states.new_full((len(rows), states.shape[-1]), -inf)
    return start.scatter_reduce(0, rows.row[:, None].expand_as(states), states, "amax")


def first(states: Tensor, rows: Rows) -> Tensor:
    return states[rows.first]


def last(states: Tensor, rows: Rows) -> Tensor:
    return states[rows.last]


def concat(states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, 3 W)
    """Howard and Ruder 2018 (ULMFiT): the last state, the largest and the mean side by side."""
    return torch.cat([pool(states, rows) for pool in (last, largest, mean)], -1)


POOLINGS: dict[str, Callable[[Tensor, Rows], Tensor]] = {
    "mean": mean,
    "max": largest,
    "first": first,
    "last": last,
    "mean_sqrt_len_tokens": mean_sqrt_len,
    "weightedmean": weighted_mean,
}
