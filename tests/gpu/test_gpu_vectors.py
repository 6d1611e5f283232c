"""Word vectors on a GPU: losses and steps as on a CPU, and words of a kind that come together."""

from __future__ import annotations

import copy
import random

import pytest
import torch

from regard.commands.vectors import train_vectors
from regard.models.words import WordTables
from regard.objectives.objective import to_device
from regard.objectives.words import Bag, GloVe, SkipGram, Windows
from regard.training.tables import RowAdaGrad

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

GROUPS = [["red", "green", "blue", "yellow"], ["one", "two", "three", "four"], ["dog", "cat", "horse", "cow"]]
VOCAB = 500


def question(kind: str):
    torch.manual_seed(0)
    if kind == "glove":
        first, second = torch.randint(VOCAB, (2, 4000))
        return GloVe(10.0), {"first": first, "second": second, "counts": 30 * torch.rand(4000) + 0.1}
    windows = Windows.of(torch.arange(VOCAB, 0, -1))
    rows = torch.arange(64 * 42).div(50, rounding_mode="floor").reshape(64, 42)
    asked = windows.ask({"ids": torch.randint(VOCAB, rows.shape), "rows": rows})
    return (SkipGram if kind == "skip-gram" else Bag)(windows), asked


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "glove"])
def test_a_step_there_is_a_step_here(kind):
    objective, asked = question(kind)
    here = WordTables(VOCAB, 50, biases=kind == "glove")
    there = copy.deepcopy(here).cuda()
    losses = []
    for model, batch in ((here, asked), (there, to_device(asked, "cuda"))):
        result = objective.judge(model, batch)
        result.loss.backward()
        RowAdaGrad(model.parameters(), 1.0).step(0.5)
        losses.append(result.loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for ours, theirs in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.cpu(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "glove"])
def test_words_of_a_kind_come_together(kind, tmp_path):
    draw = random.Random(0)
    groups = [draw.choice(GROUPS) for _ in range(1500)]
    lines = (" ".join(draw.choice([*group, *group, "the", "and"]) for _ in range(12)) for group in groups)
    (tmp_path / "text").write_text("\n".join(lines))
    vectors = train_vectors(kind, [tmp_path / "text"], size=16, epochs=8, sample=0.0, device="cuda")
    for group in GROUPS:
        for word in group:
            near = [one.word for one in vectors.near(word, 13) if one.word not in ("the", "and")]
            assert set(near[:3]) == set(group) - {word}
