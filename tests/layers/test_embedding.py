"""Tokens as vectors, and the places added to them."""

from __future__ import annotations

import math

import pytest
import torch

from regard.errors import Problem
from regard.layers.embedding import WAVES, Embedding, EmbeddingConfig, halves, sinusoids
from regard.rows import Rows, Tokens


def test_sinusoids_are_the_papers():
    wanted = [
        [(math.cos if i % 2 else math.sin)(place / 10000 ** ((i - i % 2) / 512)) for i in range(512)]
        for place in range(20)
    ]
    torch.testing.assert_close(sinusoids(torch.arange(20), 512), torch.tensor(wanted), rtol=0, atol=1e-5)


def test_an_odd_width_has_a_sine_more():
    assert torch.equal(sinusoids(torch.arange(4), 1), torch.arange(4).float().sin()[:, None])
    assert sinusoids(torch.arange(4), 7).shape == (4, 7)


@pytest.mark.parametrize("width", [1, 7, 512])
def test_halves_are_all_sines_then_all_cosines(width):
    sines, cosines = (width + 1) // 2, width // 2
    angles = [[place / 10000 ** (2 * i / width) for i in range(sines)] for place in range(20)]
    wanted = [[*map(math.sin, row), *map(math.cos, row[:cosines])] for row in angles]
    torch.testing.assert_close(halves(torch.arange(20), width), torch.tensor(wanted), rtol=0, atol=1e-5)


@pytest.mark.parametrize("positions, ends", [("sinusoidal", False), ("sinusoidal-halves", True), ("learned", True)])
def test_a_table_ends_and_a_formula_does_not(positions, ends):
    embed = Embedding(EmbeddingConfig(9, 16, positions, longest=6))
    assert (embed.places == 6) == ends
    assert embed.read(Tokens.of([[1] * 6])).shape == (6, 16)
    if ends:
        with pytest.raises(Problem, match="a row of 7 tokens is longer than the table of positions, which has 6"):
            embed.read(Tokens.of([[1] * 7]))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "sinusoidal-halves", "learned"])
def test_an_embedding_is_its_table_and_its_places(positions, scaled):
    embed = Embedding(EmbeddingConfig(9, 16, positions, longest=6, scaled=scaled)).eval()
    rows = Rows.of([3, 1])
    got = embed(torch.tensor([5, 2, 5, 5]), rows.at)
    for x, token, place in zip(got, [5, 2, 5, 5], [0, 1, 2, 0], strict=True):
        wanted = embed.tokens.weight[token] * (4 if scaled else 1)
        if positions == "learned":
            wanted = wanted + embed.positions.weight[place]
        if positions in WAVES:
            wanted = wanted + WAVES[positions](torch.tensor([place]), 16)[0]
        torch.testing.assert_close(x, wanted)


def test_tokens_and_places_begin_equally_loud():
    """A scaled table is drawn so that what comes out is about as large as a sinusoid: neither drowns the other."""
    embed = Embedding(EmbeddingConfig(1000, 64, "none"))
    assert 0.9 < embed.eval()(torch.arange(1000), torch.zeros(1000)).std() < 1.1
