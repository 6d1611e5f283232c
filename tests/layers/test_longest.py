"""Where tables end: told beforehand, and refused in words."""

from __future__ import annotations

import sys

import pytest
import torch

from regard.config import change
from regard.errors import Problem
from regard.layers.longest import longest_row
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens


def learned(longest: int) -> Transformer:
    config = change(transformer(1, 16, 2, 32, vocab=11), "embedding.positions", "learned")
    return Transformer(change(config, "embedding.longest", longest)).eval()


def test_the_shortest_table_decides():
    assert longest_row(Transformer(transformer(1, 16, 2, 32, vocab=11))) == sys.maxsize
    assert longest_row(learned(5)) == 5
    assert longest_row(Seq2Seq(seq2seq("location", width=16, vocab=11))) == 256
    assert longest_row(Seq2Seq(seq2seq("dot", width=16, vocab=11))) == sys.maxsize


@torch.no_grad()
def test_a_row_as_long_as_the_table_is_read_and_a_longer_one_refused():
    model = learned(5)
    model(Tokens.of([[3] * 5]), Tokens.of([[1] * 5]))
    for source, target in ((6, 5), (5, 6)):
        with pytest.raises(Problem, match="a row of 6 tokens is longer than the table of positions, which has 5"):
            model(Tokens.of([[3] * source]), Tokens.of([[1] * target]))
    with pytest.raises(Problem, match="a row of 6 tokens"):
        model.start(Tokens.of([[3] * 6]))
