"""Training large tables of which a batch looks up a few rows: AdaGrad a row, and a loop that keeps the device busy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import Problem
from regard.objectives.objective import Asked, Batch, Result
from regard.training.report import Reporter

EVERY = 2.0  # seconds between reports


@dataclass(frozen=True)
class Pace:
    """How far a step goes.  The rate falls to nothing in a straight line."""

    rate: float
    start: float  # of the sums of squares: the larger, the more alike are the steps of rare and of frequent rows


class RowAdaGrad:
    """AdaGrad (Duchi et al. 2011) with one sum of squares a row.  All that a batch says of a row is added up before it
    is squared, and so a row that is everywhere in a large batch still takes a modest step.  Rows that were not looked
    up cost nothing."""

    def __init__(self, tables: Iterable[nn.Parameter], start: float):
        self.tables = list(tables)
        self.squares = [table.new_full((len(table),), start).detach() for table in self.tables]
        self.sums = [torch.zeros_like(table) for table in self.tables]  # all zeros between steps

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for table, squares, sums in zip(self.tables, self.squares, self.sums, strict=True):
            rows, parts = entries(table)
            sums.index_add_(0, rows, parts)
            total = sums.index_select(0, rows)  # (n, W); a row that was looked up twice is here twice, and alike
            squared = squares[rows] + total.square().mean(1)
            squares[rows] = squared
            moved = table.index_select(0, rows).addcmul_(total, squared.rsqrt()[:, None], value=-rate)
            table.index_copy_(0, rows, moved)
            sums.index_fill_(0, rows, 0)
            table.grad = None


def train_tables(
    asked: Asked, batches: Iterator[Batch], steps: int, pace: Pace, words: int, reporter: Reporter
) -> None:
    """Take a step for each batch.  `words` of text go through all of them: the speed that is told is in words."""
    optimizer, began = RowAdaGrad(asked.parameters(), pace.start), time.monotonic()
    told = began
    reporter.begin(0, steps)
    try:
        for step, batch in enumerate(batches, 1):
            result = asked(asked.prepare(batch))
            result.loss.backward()
            rate = pace.rate * (1 - (step - 1) / steps)
            if time.monotonic() - told > EVERY or step == steps:
                numbers, told = measured(asked, result, step), time.monotonic()
                speed = words * step / steps / (told - began)
                reporter.tell({"step": step, **numbers, "rate": rate, "tokens_per_second": speed})
            optimizer.step(rate)
    finally:
        reporter.end()


def measured(asked: Asked, result: Result, step: int) -> dict[str, float]:
    """The loss and the gradient's length, for which the device is waited for."""
    gradients = [table.grad.coalesce().values().norm() for table in asked.parameters() if table.grad is not None]
    loss, norm = (result.loss / result.count.clamp(min=1)).item(), torch.stack(gradients).norm().item()
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise Problem(f"step {step}: the loss is {loss} and the gradient's norm {norm}. Train with a lower rate.")
    return {"loss": loss, "norm": norm}


def entries(table: nn.Parameter) -> tuple[Tensor, Tensor]:  # (n,), (n, W)
    """The rows of a sparse gradient, as often as they were looked up, and what each time says of them."""
    gradient = table.grad
    if gradient is None or not gradient.is_sparse:
        raise TypeError("rows of tables are trained by sparse gradients; make the embedding with sparse=True")
    return gradient._indices()[0], gradient._values()
