"""Queries, keys and values by one product: the same as by three, wherever they go on from there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.watch import collect, watch
from regard.layers.block import BlockConfig
from regard.layers.stack import Stack, StackConfig
from regard.rows import Rows

ROWS = Rows.of([3, 7, 1])


def stack_of(positions="none", bias=True, residual_scores=False) -> Stack:
    torch.manual_seed(0)
    attention = AttentionConfig(heads=2, bias=bias, positions=positions)
    block = BlockConfig(16, 32, dropout=0.0, attention=attention)
    return Stack(StackConfig(2, causal=True, block=block, residual_scores=residual_scores))


def join(stack: Stack) -> None:
    """As a GPU does it, at every use; or once for all, as a copy may."""
    for part in stack.modules():
        if isinstance(part, Attention):
            part.joined = part.join()


def read(stack: Stack) -> list[torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(ROWS.total, 16, requires_grad=True)
    states = stack.read(x, ROWS)
    asked = [x, *(p for name, p in stack.named_parameters() if not name.endswith(".k.bias"))]  # a softmax ignores it
    return [states, *torch.autograd.grad(states.square().sum(), asked)]


@pytest.mark.parametrize("positions", ["none", "rotary", "distance"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("residual_scores", [False, True], ids=["plain", "scores go up"])
def test_states_and_gradients_are_the_same(positions, bias, residual_scores):
    stack = stack_of(positions, bias, residual_scores)
    wanted = read(stack)
    join(stack)
    torch.testing.assert_close(read(stack), wanted, rtol=1e-4, atol=1e-4)


def test_reading_on_is_the_same():
    stack = stack_of().eval()
    x, parts = torch.randn(8, 16), (Rows.of([5]), Rows.of([3]))
    found = []
    for joined in (False, True):
        if joined:
            join(stack)
        with torch.no_grad():
            first, traces = stack(x[:5], parts[0])
            later, _ = stack(x[5:], parts[1], was=traces, start=torch.full((3,), 5))
        found.append(torch.cat([first, later]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_who_watches_sees_the_same():
    stack, found = stack_of(), []
    for joined in (False, True):
        if joined:
            join(stack)
        with watch(stack) as seen, collect(stack) as calls, torch.no_grad():
            stack.read(torch.ones(ROWS.total, 16), ROWS)
        weights = [row for calls in seen.values() for rows in calls for row in rows]
        found.append([*weights, *(call.weights() for call in calls)])
    torch.testing.assert_close(*found)


def test_a_cpu_has_three_products_and_so_have_identities():
    config = AttentionConfig(heads=1)
    for attention in (Attention(8, config), Attention(8, replace(config, project=False))):
        q, memory = attention.itself(torch.ones(3, 8), Rows.of([3]))
        assert q is None and memory.k.shape == (3, 1, 8)
