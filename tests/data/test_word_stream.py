"""A text in blocks, and its pairs counted, each beside its definition in loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from regard.data import word_stream
from regard.data.parallel import Ragged
from regard.data.word_stream import BLOCK, BatchSize, Cooccurrences, WordStream
from regard.data.words import WordText
from regard.errors import Problem

CPU = torch.device("cpu")


def text_of(lines: list[list[int]]) -> WordText:
    counts = np.bincount([id for line in lines for id in line])
    return WordText([f"w{id}" for id in range(len(counts))], counts, Ragged.of(lines), int(counts.sum()))


@pytest.fixture
def lines() -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, 20, size).tolist() for size in draw.integers(0, 40, 60)]


def test_every_word_is_in_one_block_with_what_is_beside_it(lines):
    stream = WordStream(text_of(lines), 3, BatchSize(most=256), 0.0, CPU)
    whole = [(id, row) for row, line in enumerate(lines) for id in line]
    padded = [(0, -1)] * 3 + whole + [(0, -1)] * (BLOCK + 3)
    found = []
    for batch in stream.epoch():
        assert batch["ids"].shape == batch["rows"].shape == (len(batch["ids"]), BLOCK + 6)
        for ids, rows in zip(batch["ids"].tolist(), batch["rows"].tolist(), strict=True):
            found.append(list(zip(ids, rows, strict=True)))
    expected = [padded[at : at + BLOCK + 6] for at in range(0, len(whole), BLOCK)]
    assert sorted(found) == sorted(expected) and found != expected  # all of them, in another order


def test_an_epoch_has_the_steps_it_says_and_the_next_another_order(lines):
    torch.manual_seed(0)
    stream = WordStream(text_of(lines), 3, BatchSize(most=256), 0.0, CPU)
    epochs = [list(stream.epoch()) for _ in range(2)]
    assert [len(epoch) for epoch in epochs] == [stream.steps] * 2
    assert stream.steps == round(sum(map(len, lines)) / 256)
    assert not torch.equal(epochs[0][0]["ids"], epochs[1][0]["ids"])


def test_frequent_words_are_left_out_by_chance():
    """So many stay as word2vec's program keeps: sqrt(t / f) + t / f."""
    torch.manual_seed(0)
    text = text_of([[0] * 60_000 + [1] * 4_000 + [2] * 4])
    kept = Counter(id for batch in WordStream(text, 1, BatchSize(), 1e-2, CPU).epoch() for id in words_in(batch))
    for id, count in enumerate((60_000, 4_000, 4)):
        share = 1e-2 * 64_004 / count
        assert kept[id] / count == pytest.approx(min(share**0.5 + share, 1), rel=0.1), id


def words_in(batch) -> list[int]:
    inner = slice(1, -1)
    return batch["ids"][:, inner][batch["rows"][:, inner] >= 0].tolist()


def test_a_short_text_has_smaller_batches():
    size = BatchSize(most=1000, steps_at_least=100)
    assert [size.steps(total) for total in (10, 2_560, 50_000, 1_000_000)] == [1, 10, 100, 1000]


@pytest.mark.parametrize("stretch", [7, 64, 2**22])
def test_pairs_are_counted_by_their_distance(lines, monkeypatch, stretch):
    """However the text is cut to count them, and however often counts are added up."""
    monkeypatch.setattr(word_stream, "STRETCH", stretch)
    monkeypatch.setattr(word_stream, "PARTS", 100)
    counted = Cooccurrences(text_of(lines), 4, BatchSize(), CPU)
    found = {
        divmod(pair, 20): count for pair, count in zip(counted.pairs.tolist(), counted.counts.tolist(), strict=True)
    }
    expected: Counter[tuple[int, int]] = Counter()
    for line in lines:
        for at, id in enumerate(line):
            for distance, other in enumerate(line[at + 1 : at + 5], 1):
                expected[min(id, other), max(id, other)] += 1 / distance
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], rel=1e-5) for pair in expected)


def test_every_pair_is_asked_once_an_epoch(lines):
    counted = Cooccurrences(text_of(lines), 4, BatchSize(most=50, steps_at_least=4), CPU)
    batches = list(counted.epoch())
    assert len(batches) == counted.steps
    pairs = torch.cat([batch["first"] * 20 + batch["second"] for batch in batches])
    assert torch.equal(pairs.sort().values, counted.pairs)
    assert torch.cat([batch["counts"] for batch in batches]).sum() == pytest.approx(float(counted.counts.sum()))


def test_lines_of_one_word_have_no_pairs():
    with pytest.raises(Problem, match="no two words stand on one line"):
        Cooccurrences(text_of([[0], [1], [0]]), 5, BatchSize(), CPU)
