"""Calls that are collected: nothing large is kept or computed until it is asked for, later learning does not change
them, and the parts of a text join to one."""

from __future__ import annotations

import pytest
import torch

from regard.attention import route as module
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL
from regard.attention.watch import brief, collect, joined, watch
from regard.layers.block import BlockConfig
from regard.layers.stack import Stack, StackConfig
from regard.models.heads import new_encoder
from regard.models.t5 import T5, t5
from regard.models.transformer_xl import transformer_xl
from regard.rows import Rows, Tokens


def close(got, wanted) -> None:
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=0)


def stack(layers: int = 3, distinct: int | None = None, **settings) -> Stack:
    torch.manual_seed(0)
    attention = AttentionConfig(2, **settings)
    return Stack(StackConfig(layers, distinct, True, block=BlockConfig(8, 16, attention=attention))).eval()


@torch.no_grad()
def test_the_weights_are_those_that_are_watched():
    body, rows = stack(), Rows.of([4, 2])
    x = torch.randn(rows.total, 8)
    with watch(body) as seen, collect(body) as calls:
        body(x, rows)
    assert [call.name for call in calls] == list(seen)
    for call in calls:
        for weights, row, size in zip(call.weights(), seen[call.name][0], [4, 2], strict=True):
            assert torch.equal(weights[:, :size, :size], row)
        scores = call.scores()
        assert scores[0, :, 0, 1:].eq(-torch.inf).all()
        close(scores[:1].softmax(-1), call.weights()[:1])


@torch.no_grad()
def test_a_shared_attention_is_a_call_for_each_layer():
    body, rows = stack(4, 1), Rows.of([3])
    with collect(body) as calls:
        body(torch.randn(3, 8), rows)
    assert [call.name for call in calls] == ["blocks.0.attention"] * 4
    assert not torch.equal(calls[0].weights(), calls[3].weights())


@torch.no_grad()
def test_nothing_large_is_kept_or_computed_until_it_is_asked_for(monkeypatch):
    body, rows = stack(positions="distance"), Rows.of([200])
    asked = []
    whole = module.attention_weights
    monkeypatch.setattr(module, "attention_weights", lambda *given: asked.append(1) or whole(*given))
    with collect(body) as calls:
        body(torch.randn(200, 8), rows)
    assert not asked
    for call in calls:
        kept = [call.q, call.memory.k, call.memory.v, call.places, *call.position.parameters()]
        assert call.given is None and max(tensor.numel() for tensor in kept) < 200 * 200
    calls[1].weights()
    assert len(asked) == 1


@pytest.mark.parametrize("positions", ["none", "distance"])
@torch.no_grad()
def test_what_a_model_learns_later_changes_no_call(positions):
    body, rows = stack(positions=positions), Rows.of([5])
    with collect(body) as calls:
        body(torch.randn(5, 8), rows)
    before = [call.weights() for call in calls]
    for parameter in body.parameters():
        parameter.add_(1.0)
    assert all(torch.equal(call.weights(), weights) for call, weights in zip(calls, before, strict=True))


def test_nothing_is_left_behind():
    attention, rows = Attention(8, AttentionConfig(2)), Rows.of([2])
    x = torch.randn(2, 8, requires_grad=True)
    with collect(attention) as calls:
        attention(x, attention.remember(x, rows), rows, mask=CAUSAL)
    attention(x, attention.remember(x, rows), rows)
    assert len(calls) == 1 and not calls[0].weights().requires_grad
    assert not attention._forward_pre_hooks


@pytest.mark.parametrize("positions", ["none", "rotary", "distance"])
@pytest.mark.parametrize("parts", [[1] * 6, [3, 1, 1, 1], [2, 4]], ids=str)
@torch.no_grad()
def test_the_parts_of_a_text_join_to_one(positions, parts):
    body = stack(positions=positions)
    x = torch.randn(6, 8)
    with collect(body) as whole:
        body(x, Rows.of([6]))
    traces, steps, place = None, [], 0
    for size in parts:
        with collect(body) as calls:
            _, traces = body(x[place : place + size], Rows.of([size]), was=traces, start=place)
        steps.append(calls)
        place += size
    for layer, call in enumerate(whole):
        first, *rest = (step[layer] for step in steps)
        one = joined([first, *rest])
        close(joined([first, *map(brief, rest)]).weights(), one.weights())
        close(one.weights(), call.weights())
        close(one.queries(), call.queries())
        close(one.memory.k, call.memory.k)


@torch.no_grad()
def test_biases_of_buckets_join():
    torch.manual_seed(0)
    model = T5(t5(2, 16, 2, 32, size=6, vocab=11)).eval()
    source, target = Tokens.of([[3, 4, 5]]), [1, 5, 6, 7]
    with collect(model) as whole:
        model(source, Tokens.of([target]))
    state, steps = model.start(source), []
    for token in target:
        with collect(model) as calls:
            _, state = model.step(torch.tensor([token]), state)
        steps.append(calls)
    for layer, call in enumerate(whole[2:]):
        one = joined([step[layer] for step in steps])
        assert one.name == call.name
        close(one.weights(), call.weights())


@torch.no_grad()
def test_what_was_forgotten_is_not_looked_at():
    """A Transformer-XL that remembers three places, read token by token, looks at four."""
    torch.manual_seed(0)
    model = new_encoder("transformer-xl", transformer_xl(2, 16, 2, 32, vocab=11, memory=3), {"write"}).model
    ids, state, steps, seen = [3, 4, 5, 6, 7, 8, 9], None, [], []
    for id in ids:
        with collect(model) as calls, watch(model) as weights:
            _, state = model.read(Tokens.of([[id]]), state)
        steps.append(calls)
        seen.append([call[0][0] for call in weights.values()])
    for layer in range(2):
        found = joined([brief(step[layer]) for step in steps]).weights()[0]
        for place in range(len(ids)):
            first = max(place - 3, 0)
            close(found[:, place, first : place + 1], seen[place][layer][:, 0])
            assert not found[:, place, :first].any() and not found[:, place, place + 1 :].any()
