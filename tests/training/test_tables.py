"""AdaGrad a row: beside its definition in loops; and what it is for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import Problem
from regard.objectives.objective import Asked, Objective, Result
from regard.training.report import Reporter
from regard.training.tables import Pace, RowAdaGrad, train_tables


class Told(Reporter):
    def __init__(self):
        self.records, self.ended = [], False

    def tell(self, record):
        self.records.append(record)

    def end(self):
        self.ended = True


class Reach(Objective):
    """Rows are to become ones; whoever is looked up twice counts twice."""

    def judge(self, model, batch):
        loss = (model(batch["rows"]) - 1).square().sum() * batch.get("weight", 1.0)
        return Result(loss, torch.tensor(len(batch["rows"])))


def table_of(rows: int, width: int) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(rows, width, sparse=True)


def test_a_step_is_its_definition():
    table, start = table_of(6, 4), 0.5
    expected, squares = table.weight.detach().clone(), torch.full((6,), start)
    optimizer = RowAdaGrad([table.weight], start)
    for step in range(4):
        rows = torch.randint(5, (9,))
        Reach().judge(table, {"rows": rows}).loss.backward()
        optimizer.step(rate=0.1 + step)
        for row in set(rows.tolist()):
            gradient = 2 * (expected[row] - 1) * rows.eq(row).sum()
            squares[row] += gradient.square().mean()
            expected[row] -= (0.1 + step) * gradient / squares[row].sqrt()
    torch.testing.assert_close(table.weight.detach(), expected)
    torch.testing.assert_close(optimizer.squares[0], squares)
    assert not optimizer.sums[0].any() and table.weight.grad is None


def test_rows_that_are_not_looked_up_stay_as_they_are():
    table = table_of(6, 4)
    before = table.weight.detach().clone()
    Reach().judge(table, {"rows": torch.tensor([1, 3, 3])}).loss.backward()
    RowAdaGrad([table.weight], 1.0).step(0.1)
    assert (table.weight != before).any(1).tolist() == [False, True, False, True, False, False]


def test_a_row_that_fills_a_batch_takes_a_modest_step():
    """Plain descent by a thousand summed gradients would throw it further away with every step."""
    table = table_of(2, 4)
    optimizer, far = RowAdaGrad([table.weight], 1.0), []
    for _ in range(100):
        before = table.weight.detach().clone()
        Reach().judge(table, {"rows": torch.zeros(1000, dtype=torch.long)}).loss.backward()
        optimizer.step(0.1)
        assert (table.weight - before).square().mean(1).sqrt().max() <= 0.1 + 1e-6
        far.append((table.weight[0] - 1).norm().item())
    assert far == sorted(far, reverse=True) and far[-1] < 0.6 * far[0]


def batches(count: int, **more):
    return ({"rows": torch.arange(4), **more} for _ in range(count))


def test_the_loop_takes_every_batch_and_tells_how_it_goes():
    table, told = table_of(4, 3), Told()
    train_tables(Asked(table, Reach()), batches(50), 50, Pace(0.5, 1.0), 1000, told)
    assert (table.weight - 1).abs().max() < 0.1 and told.ended
    last = told.records[-1]
    assert last["step"] == 50 and last["loss"] < 0.01 and last["rate"] == pytest.approx(0.5 / 50)
    assert last["tokens_per_second"] > 0 and last["norm"] >= 0


def test_numbers_that_are_not_finite_end_it():
    told = Told()
    with pytest.raises(Problem, match=r"step 3: the loss is nan.*lower rate"):
        train_tables(Asked(table_of(4, 3), Reach()), batches(3, weight=float("nan")), 3, Pace(0.5, 1.0), 9, told)
    assert told.ended


def test_a_dense_gradient_is_refused():
    table = nn.Embedding(3, 2)
    table(torch.tensor([0])).sum().backward()
    with pytest.raises(TypeError, match="sparse=True"):
        RowAdaGrad([table.weight], 1.0).step(0.1)
