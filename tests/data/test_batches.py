import random
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import PairBatches, sorted_batches
from regard.data.parallel import Encoded, Ragged
from regard.errors import UsageProblem

BEGIN, END = 1, 2


def corpus(count: int = 300, longest: int = 20) -> Encoded:
    """Pairs that name themselves: all ids of pair n are n + 10."""
    draw = random.Random(0)
    rows = [[[n + 10] * draw.randint(1, longest) for n in range(count)] for _ in range(2)]
    return Encoded(Ragged.of(rows[0]), Ragged.of(rows[1]), 0, 0, longest=100)


def batches(seed: int = 3, budget: int = 64, encoded: Encoded | None = None) -> PairBatches:
    return PairBatches(encoded or corpus(), budget, seed, BEGIN, END)


def members(batch) -> list[int]:
    return [row[0] - 10 for row in batch["source"].tolist()]


def epoch_members(series: PairBatches, epoch: int) -> list[list[int]]:
    start = next(p for p in range(10**6) if series.epoch_of(p) == (epoch, 0))
    found, position = [], start
    while series.epoch_of(position)[0] == epoch:
        found.append(members(series.at(position)))
        position += 1
    return found


def test_what_a_batch_holds():
    encoded = corpus()
    batch = batches(encoded=encoded).at(5)
    targets = batch["target_in"].rows.split(batch["target_out"])
    for number, source, read, write in zip(
        members(batch), batch["source"].tolist(), batch["target_in"].tolist(), targets, strict=True
    ):
        assert source == encoded.source[number].tolist()
        assert read == [BEGIN, *encoded.target[number]]
        assert write.tolist() == [*encoded.target[number], END]


def test_a_batch_depends_on_its_position_only():
    positions = list(range(200))
    expected = [members(batches().at(p)) for p in positions[::20]]
    one = batches()
    random.Random(1).shuffle(positions)
    seen = {p: members(one.at(p)) for p in positions}
    assert [seen[p] for p in range(0, 200, 20)] == expected


@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_every_pair_once_an_epoch(epoch):
    found = epoch_members(batches(), epoch)
    assert sorted(n for batch in found for n in batch) == list(range(300))


def test_epochs_and_seeds_differ():
    orders = [epoch_members(batches(), 0), epoch_members(batches(), 1), epoch_members(batches(seed=4), 0)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_positions_run_through_the_epochs():
    series = batches()
    places = [series.epoch_of(p) for p in range(5 * series.per_epoch)]
    assert places[series.per_epoch - 1] == (0, series.per_epoch - 1) and places[series.per_epoch] == (1, 0)
    for before, after in pairwise(places):
        assert after in {(before[0], before[1] + 1), (before[0] + 1, 0)}
    assert batches().epoch_of(len(places) - 1) == places[-1]


def test_the_budget_holds_and_is_used():
    series, encoded = batches(), corpus()
    cost = np.maximum(encoded.source.lengths, encoded.target.lengths + 1)
    spent = [cost[batch].sum() for batch in epoch_members(series, 0)]
    assert max(spent) <= 64 and np.mean(spent) > 48


def test_a_pair_over_the_budget_stands_alone():
    assert all(len(batch) == 1 for batch in epoch_members(batches(budget=1), 0))


def test_batches_hold_alike_lengths():
    encoded = corpus(3_000, 50)
    cost = np.maximum(encoded.source.lengths, encoded.target.lengths + 1)
    spreads = [np.ptp(cost[batch]) for batch in epoch_members(batches(budget=500, encoded=encoded), 0)]
    assert np.mean(spreads) < 3


def test_two_threads_agree_with_one():
    series, found = batches(), {}
    positions = range(0, 400, 7)
    asking = [threading.Thread(target=lambda: [series.epoch_of(p) for p in range(400)]) for _ in range(3)]
    making = threading.Thread(target=lambda: found.update({p: members(series.at(p)) for p in positions}))
    for thread in (*asking, making):
        thread.start()
    for thread in (*asking, making):
        thread.join()
    alone = batches()
    assert found == {p: members(alone.at(p)) for p in positions}


def test_a_million_pairs_are_planned_soon():
    lengths = np.random.default_rng(0).integers(1, 60, 1_000_000)
    rows = Ragged(np.zeros(lengths.sum(), np.int32), np.concatenate([[0], np.cumsum(lengths)]))
    series = batches(budget=4096, encoded=Encoded(rows, rows, 0, 0, longest=100))
    begin = time.process_time()
    assert 7_000 < series.per_epoch < 8_500
    assert time.process_time() - begin < 10


def test_impossible_settings():
    for wrong in ({"budget": 0}, {"seed": -1}):
        with pytest.raises(UsageProblem):
            batches(**wrong)


@given(st.lists(st.integers(0, 40)), st.integers(1, 60))
def test_sorted_batches(lengths, budget):
    found = sorted_batches(lengths, budget)
    order = [number for batch in found for number in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[n] for n in order] == sorted(lengths, reverse=True) or 0 in lengths
    assert all(sum(lengths[n] for n in batch) <= budget or len(batch) == 1 for batch in found)
