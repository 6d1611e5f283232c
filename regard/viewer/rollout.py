"""Where attention leads through the layers, the residual counted: rollout and flow (Abnar and Zuidema, 2020).

Letters: L layers, T tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

UNITS = 10**6  # a capacity of 1 in the whole numbers that flows are computed in
MOST = 100_000_000  # pairs of tokens times edges: three seconds; 12 layers of 53 tokens


def rollout(weights: np.ndarray) -> np.ndarray:  # (L, T, T) mean over heads -> (L, T, T) up to each layer
    """How much of each input reaches each token, if a token is half itself and half what it looks at."""
    found = np.empty_like(weights, np.float64)
    below = np.eye(weights.shape[-1])
    for number, layer in enumerate(halved(weights)):
        found[number] = below = layer @ below
    return found


def halved(weights: np.ndarray) -> np.ndarray:  # (L, T, T)
    """Each step with the residual: (A + I) / 2, rows summing to 1 also where a token looks at nothing."""
    steps = abs(weights.astype(np.float64)) + np.eye(weights.shape[-1])  # a low-rank route's may be negative
    return steps / steps.sum(-1, keepdims=True)


def flow_can(layers: int, tokens: int) -> bool:
    """Whether flow is computed in seconds."""
    return tokens**2 * layers * tokens**2 <= MOST


def flow(weights: np.ndarray) -> np.ndarray:  # (L, T, T) -> (T, T)
    """How much can flow from each token of the last layer down to each input, if weights are capacities; each token's
    row sums to 1."""
    from scipy.sparse.csgraph import maximum_flow

    steps = halved(weights)
    layers, tokens, _ = steps.shape
    graph = capacities(steps)
    found = np.zeros((tokens, tokens))
    for top in range(tokens):
        for bottom in range(tokens):
            found[top, bottom] = maximum_flow(graph, layers * tokens + top, bottom).flow_value
    return found / found.sum(-1, keepdims=True)


def capacities(steps: np.ndarray) -> Any:
    """The graph whose node l * T + t is token t above layer l; its edges lead down."""
    from scipy.sparse import csr_array

    layers, tokens, _ = steps.shape
    layer, above, below = np.nonzero(steps)
    whole = np.rint(steps[layer, above, below] * UNITS).astype(np.int32)
    nodes = (layers + 1) * tokens
    upper, lower = (layer + 1) * tokens + above, layer * tokens + below
    # maximum_flow of earlier scipys takes no wider indices
    return csr_array((whole, (upper.astype(np.int32), lower.astype(np.int32))), (nodes, nodes))
