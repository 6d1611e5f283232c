"""Watching: the right attentions, their weights without padding, and nothing left behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.attend import attention_weights
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL, chosen_keys
from regard.attention.watch import watch
from regard.decoding.decoder import Ends
from regard.decoding.sample import sample
from regard.models.transformer import Transformer, transformer
from regard.rows import Rows, Tokens


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Transformer(transformer(2, 16, 2, 32, vocab=11)).eval()


def watchers(model: nn.Module) -> list:
    return [watcher for m in model.modules() if isinstance(m, Attention) for watcher in m.watchers]


def test_a_pattern_chooses_the_layers(model):
    with watch(model, "decoder.*.cross") as seen:
        model(Tokens.of([[3, 4, 5]]), Tokens.of([[1, 2]]))
    assert list(seen) == ["decoder.blocks.0.cross", "decoder.blocks.1.cross"]
    assert seen["decoder.blocks.1.cross"][0][0].shape == (2, 2, 3)


def test_every_call_is_seen_in_order(model):
    with watch(model, "decoder.blocks.0.attention") as seen:
        (written,) = sample(model, Tokens.of([[3, 4]]), Ends(1, 2, 0.0, 5))
    calls = seen["decoder.blocks.0.attention"]
    assert [call[0].shape for call in calls] == [(2, 1, place + 1) for place in range(len(calls))]
    assert len(calls) == len(written.tokens) + 1


def test_nothing_is_left_behind(model):
    with watch(model), watch(model, "encoder.*"):
        assert watchers(model)
    assert not watchers(model)
    with pytest.raises(RuntimeError, match="on the way"), watch(model):
        raise RuntimeError("on the way")
    assert not watchers(model)


def test_two_can_watch_at_once(model):
    with watch(model) as whole, watch(model, "encoder.*", heads=[1]) as part:
        model(Tokens.of([[3, 4, 5], [6]]), Tokens.of([[1], [1, 2]]))
    for name, (rows,) in part.items():
        for got, wanted in zip(rows, whole[name][0], strict=True):
            torch.testing.assert_close(got, wanted[[1]])


def test_the_weights_carry_no_gradient():
    attention, rows = Attention(8, AttentionConfig(2)), Rows.of([2])
    x = torch.randn(2, 8, requires_grad=True)
    with watch(attention) as seen:
        attention(x, attention.remember(x, rows), rows)
    assert not seen[""][0][0].requires_grad


def test_chosen_rows_keep_a_mask_that_depends_on_the_row():
    torch.manual_seed(0)
    attention, rows = Attention(8, AttentionConfig(2)), Rows.of([3, 2, 4])
    mask = CAUSAL & chosen_keys(torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0]]).bool())
    x = torch.randn(rows.total, 8)
    memory = attention.remember(x, rows)
    with watch(attention, rows=[2, 1]) as seen:
        attention(x, memory, rows, mask)
    whole = attention_weights(attention.split(attention.q(x)), memory, rows, attention.score, mask)
    torch.testing.assert_close(seen[""][0][0], whole[2, :, :4, :4])
    torch.testing.assert_close(seen[""][0][1], whole[1, :, :2, :2])
