"""Rollout and flow by hand, and flow as another library computes it."""

from __future__ import annotations

import numpy as np
import pytest

from regard.viewer.rollout import flow, flow_can, halved, rollout


def drawn(layers: int, tokens: int, *, causal: bool = False) -> np.ndarray:
    weights = np.random.default_rng(0).dirichlet(np.full(tokens, 0.5), (layers, tokens))
    weights = np.tril(weights) if causal else weights
    return weights / weights.sum(-1, keepdims=True)


def test_half_of_each_step_is_the_residual():
    weights = np.array([[[0.0, 1.0], [0.5, 0.5]]])
    np.testing.assert_allclose(rollout(weights)[0], [[0.5, 0.5], [0.25, 0.75]])


def test_two_layers_by_hand():
    first, second = [[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]]
    found = rollout(np.array([first, second]))
    np.testing.assert_allclose(found[0], [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(found[1], np.array([[1.0, 0.0], [0.25, 0.75]]) @ found[0])


@pytest.mark.parametrize("causal", [False, True])
def test_rollout_is_shares_of_what_could_be_seen(causal):
    found = rollout(drawn(4, 6, causal=causal))
    np.testing.assert_allclose(found.sum(-1), 1)
    assert not causal or not np.triu(found, 1).any()


def test_a_token_that_looks_at_nothing_stays_itself():
    np.testing.assert_allclose(rollout(np.zeros((2, 3, 3)))[-1], np.eye(3))


def test_flow_through_one_layer_is_its_weights():
    weights = drawn(1, 4)
    np.testing.assert_allclose(flow(weights), halved(weights)[0], atol=1e-5)


def test_flow_by_hand():
    """Token 0 can send 0.5 to itself and 0.5 to token 1, which sends all on to itself: no edge is in the way."""
    first, second = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]
    np.testing.assert_allclose(flow(np.array([first, second])), [[0.5, 0.5], [0.0, 1.0]], atol=1e-5)


@pytest.mark.parametrize("layers, tokens, causal", [(2, 4, False), (3, 5, False), (4, 4, True)])
def test_flow_is_what_another_library_finds(layers, tokens, causal):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    weights = drawn(layers, tokens, causal=causal)
    graph = networkx.DiGraph()
    for layer, above, below in np.ndindex(*weights.shape):
        graph.add_edge((layer + 1, above), (layer, below), capacity=halved(weights)[layer, above, below])
    pairs = [[networkx.maximum_flow_value(graph, (layers, t), (0, b)) for b in range(tokens)] for t in range(tokens)]
    wanted = np.array(pairs)
    np.testing.assert_allclose(flow(weights), wanted / wanted.sum(-1, keepdims=True), atol=1e-5)


def test_flow_is_for_texts_that_take_seconds():
    assert flow_can(12, 50) and flow_can(2, 80) and not flow_can(12, 512)
