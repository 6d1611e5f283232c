"""What every family owes: its config travels, it can be watched, it learns, and gradients of parts add up."""

from __future__ import annotations

import json

import pytest
import torch

from regard.attention.watch import watch
from regard.config import change, from_dict, to_dict
from regard.models import FAMILIES, TRANSLATORS
from regard.objectives.objective import Asked
from regard.objectives.translate import Translate
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

SMALL = {  # what to change in a preset to make it tiny, for the fields it has
    "embedding.vocab": 17,
    "embedding.width": 16,
    "encoder.block.width": 16,
    "encoder.block.inner": 32,
    "encoder.block.attention.heads": 2,
    "encoder.block.attention.size": 8,
    "encoder.layers": 2,
    "encoder.width": 16,
    "decoder.block.width": 16,
    "decoder.block.inner": 32,
    "decoder.block.attention.heads": 2,
    "decoder.block.attention.size": 8,
    "decoder.layers": 2,
    "decoder.width": 16,
}


def has(config, path: str) -> bool:
    name, _, rest = path.partition(".")
    return hasattr(config, name) and (not rest or has(getattr(config, name), rest))


def tiny(name: str):
    config = TRANSLATORS[name]
    for path, value in SMALL.items():
        config = change(config, path, value) if has(config, path) else config
    return config


def build(config) -> torch.nn.Module:
    torch.manual_seed(0)
    return next(module for kind, module in FAMILIES.values() if isinstance(config, kind))(config)


@pytest.fixture(params={tiny(name): name for name in TRANSLATORS}.values())  # those that differ in more than size
def model(request):
    return build(tiny(request.param)).eval()


def batch(sources, targets):
    return {
        "source": Tokens.of(sources),
        "target_in": Tokens.of([[1, *row] for row in targets]),
        "target_out": torch.tensor([token for row in targets for token in (*row, 2)]),
    }


SOURCES = [[5, 3, 8, 2], [4], [7, 9, 6, 3, 10, 2], [3, 2]]
TARGETS = [[6, 4], [3, 5, 9, 11, 8], [], [8, 7, 7]]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_config_survives_json(name):
    config = TRANSLATORS[name]
    assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def answer(model):
    asked = batch(SOURCES, TARGETS)
    return model(asked["source"], asked["target_in"])


@torch.no_grad()
def test_watching_leaves_the_output_alone(model):
    unseen = answer(model)
    with watch(model) as seen:
        watched = answer(model)
    assert torch.equal(unseen, watched) and torch.equal(unseen, answer(model))
    for calls in seen.values():
        for row in calls[0]:
            torch.testing.assert_close(row.sum(-1), torch.ones_like(row.sum(-1)))


@torch.no_grad()
def test_watched_weights_have_the_shape_of_their_rows(model):
    with watch(model) as seen:
        answer(model)
    sources, targets = [len(row) for row in SOURCES], [1 + len(row) for row in TARGETS]
    for name, (rows,) in seen.items():  # one call of each
        queries = sources if name.startswith("encoder") else targets
        keys = targets if name.startswith("decoder") and name.endswith("attention") else sources
        assert [row.shape[1:] for row in rows] == list(zip(queries, keys, strict=True)), name


@torch.no_grad()
def test_watching_less_sees_the_same(model):
    with watch(model) as whole:
        answer(model)
    for name in whole:
        heads = [len(whole[name][0][0]) - 1]
        with watch(model, name, heads=heads, rows=[2, 0]) as part:
            answer(model)
        assert list(part) == [name]
        for got, row in zip(part[name][0], (2, 0), strict=True):
            torch.testing.assert_close(got, whole[name][0][row][heads])


def gradients(asked: Asked, batches) -> tuple[dict, float]:
    asked.zero_grad()
    results = [asked(one) for one in batches]
    count = sum(result.count for result in results)
    for result in results:
        (result.loss / count).backward()
    return {name: p.grad.clone() for name, p in asked.named_parameters()}, float(count)


def test_two_halves_give_the_gradient_of_the_whole(model):
    asked = Asked(model.double(), Translate())
    whole, count = gradients(asked, [batch(SOURCES, TARGETS)])
    halves, same = gradients(asked, [batch(SOURCES[:1], TARGETS[:1]), batch(SOURCES[1:], TARGETS[1:])])
    assert count == same == sum(1 + len(row) for row in TARGETS)
    for name, gradient in whole.items():
        torch.testing.assert_close(halves[name], gradient, msg=lambda text, name=name: f"{name}: {text}")


def test_every_parameter_learns(model):
    for name, gradient in gradients(Asked(model, Translate()), [batch(SOURCES, TARGETS)])[0].items():
        assert gradient.isfinite().all() and gradient.any(), name


def test_one_batch_can_be_learnt_by_heart(model):
    asked, one = Asked(model, Translate(smoothing=0.0)), batch(SOURCES, TARGETS)
    adam = torch.optim.Adam(asked.parameters(), lr=0.01)
    for _ in range(180):
        adam.zero_grad()
        result = asked(one)
        result.loss.backward()
        adam.step()
        if result.loss / result.count < 0.04:
            break
    result = asked(one)
    assert result.parts["right"] == result.count
    assert result.loss / result.count < 0.2


def test_a_batch_read_in_inference_mode_can_be_trained_on(model):
    asked, one = Asked(model, Translate()), batch(SOURCES, TARGETS)
    with torch.inference_mode():
        asked(one)
    asked(one).loss.backward()


def test_a_compiled_transformer_is_one_graph_and_says_the_same():
    config = change(change(tiny("transformer-tiny"), "encoder.layers", 1), "decoder.layers", 1)
    model = build(config).eval()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    for size in (4, 3):
        one = batch(SOURCES[:size], TARGETS[:size])
        got, wanted = (m(one["source"], one["target_in"]) for m in (compiled, model))
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
