"""Recurrent translation, with its attention worked out by hand."""

from __future__ import annotations

import pytest
import torch

from regard.attention.score import SCORES
from regard.errors import Problem
from regard.models import PRESETS
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

SOURCE, TARGET = [3, 9, 4, 11, 5], [1, 4, 7]


@torch.no_grad()
def by_hand(model: Seq2Seq, look) -> torch.Tensor:
    """torch's own LSTMs over one sentence; look(states, source states) is what the decoder adds to its state."""
    table = model.embed.tokens.weight
    sources, (h, c) = model.encoder.cells(table[SOURCE][None])
    both = [torch.cat([x[0], x[1]], -1)[None] for x in (h, c)]  # the last state of each way, side by side
    states, _ = model.decoder.cells(table[TARGET][None], tuple(both))
    states = states[0]
    joined = torch.cat([*look(states, sources[0]), states], -1)
    return torch.tanh(model.join(joined)) @ table.T


def tiny(score):
    torch.manual_seed(0)
    return Seq2Seq(seq2seq(score, width=8, vocab=13)).eval()


def answer(model):
    return model.logits(model(Tokens.of([SOURCE, [4]]), Tokens.of([TARGET, [1, 2]])))[: len(TARGET)]


def test_the_bottleneck_sees_only_the_last_state():
    model = tiny(None)
    torch.testing.assert_close(answer(model), by_hand(model, lambda states, sources: ()))


def test_attention_puts_the_source_beside_the_state():
    model = tiny("dot")
    torch.testing.assert_close(
        answer(model), by_hand(model, lambda states, sources: [(states @ sources.T).softmax(-1) @ sources])
    )


@pytest.mark.parametrize("score", SCORES)
def test_each_score_has_a_preset(score):
    config = PRESETS[f"rnn-{score}"]
    assert config.attention.score == score and not config.attention.project
    assert config.encoder.two_way and not config.decoder.two_way


def test_attention_without_projections_owns_only_its_score():
    owned = {score: sum(p.numel() for p in tiny(score).attention.parameters()) for score in SCORES}
    assert owned == {
        "cosine": 1,  # the strength
        "additive": 8 * 8 + 8 * 8 + 8,
        "location": 8 * 256,
        "general": 8 * 8,
        "dot": 0,
        "scaled-dot": 0,
    }


def test_the_location_score_says_when_a_text_is_too_long():
    with pytest.raises(Problem, match="256 places and met a row of 300"):
        tiny("location")(Tokens.of([[3] * 300]), Tokens.of([[1]]))
