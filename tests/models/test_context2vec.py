"""context2vec: a context has read all but its word, and learns to tell it; models that read backwards learn too."""

from __future__ import annotations

import pytest
import torch

from regard.models.context2vec import context2vec
from regard.models.folder import load_published, save_files
from regard.models.heads import new_encoder
from regard.models.lstm import lstm
from regard.objectives.around import Around, Before
from regard.objectives.objective import Asked
from regard.rows import Tokens

VOCAB = 12
ROWS = [[1, 4, 5, 6, 2], [1, 7, 2], [3], [1, 8, 9, 10, 11, 2]]
TOKENS = Tokens.of(ROWS)


@pytest.fixture
def published():
    torch.manual_seed(0)
    return new_encoder("context2vec", context2vec(6, 8, VOCAB), {"masked"})


@torch.no_grad()
def test_a_context_is_its_formula(published):
    encoder = published.model.encoder
    forward, backward = encoder.around.both(TOKENS)
    nothing, start = torch.zeros(8), 0
    for row, got in zip(ROWS, TOKENS.rows.split(encoder(TOKENS)), strict=True):
        for place, context in enumerate(got):
            left = forward[start + place - 1] if place else nothing
            right = backward[start + place + 1] if place + 1 < len(row) else nothing
            first, _, second = encoder.join
            wanted = second.weight @ torch.relu(first.weight @ torch.cat([left, right]) + first.bias) + second.bias
            torch.testing.assert_close(context, wanted, rtol=1e-5, atol=1e-6)
        start += len(row)


@torch.no_grad()
def test_a_context_has_not_read_its_own_word(published):
    encoder = published.model.encoder
    other = Tokens.of([[1, 4, 3, 6, 2]])
    was, now = encoder(Tokens.of(ROWS[:1])), encoder(other)
    torch.testing.assert_close(now[2], was[2])
    assert not any(torch.allclose(now[place], was[place]) for place in (0, 1, 3, 4))


@torch.no_grad()
def test_a_folder_comes_back_and_layers_are_as_many_as_it_says(published, tmp_path):
    save_files(tmp_path / "model", published.files())
    again = load_published(tmp_path / "model")
    assert torch.equal(again.model(TOKENS), published.model(TOKENS))
    layers = list(again.model.encoder.layers(TOKENS))
    assert len(layers) == again.model.encoder.config.layers + 1
    assert [layer.shape[1] for layer in layers] == [12, 16, 16] and torch.equal(layers[-1], again.model(TOKENS))


@pytest.mark.parametrize("objective", [Around(), Before()], ids=lambda one: one.name)
def test_a_batch_can_be_learned(objective):
    torch.manual_seed(0)
    if objective.name == "around":
        model = new_encoder("context2vec", context2vec(6, 16, VOCAB), {"masked"}).model
    else:
        model = new_encoder("lstm", lstm(16, 1, way="backward", vocab=VOCAB, dropout=0.0), {"write"}).model
    asked = Asked(model.train(), objective)
    optimizer = torch.optim.AdamW(asked.parameters(), 0.03)
    for _ in range(80):
        result = asked(asked.prepare({"tokens": TOKENS}))
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
    assert result.count == (15 if objective.name == "around" else 11)
    assert result.loss / result.count < 0.7  # what may come first, or stands alone, cannot be told
