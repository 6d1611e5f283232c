"""RealFormer: each layer adds the scores of the one below to its own, in any stack, however it is read."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.watch import watch
from regard.config import change
from regard.layers.block import BlockConfig
from regard.layers.stack import Stack, StackConfig
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.t5 import T5, t5
from regard.models.transformer import Transformer, transformer
from regard.rows import Rows, Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other


def stack(**settings) -> Stack:
    torch.manual_seed(0)
    block = BlockConfig(16, 24, dropout=0.0)
    block = change(block, "attention.heads", 2)
    return Stack(StackConfig(3, residual_scores=True, block=block, **settings)).double().eval()


def by_formula(made: Stack, x: torch.Tensor, causal: bool) -> torch.Tensor:
    """One row, as the paper writes it: softmax(Q K' / sqrt(d) + the scores below) V, norms behind the sums."""
    below = torch.zeros(2, len(x), len(x), dtype=x.dtype)
    for block in made.blocks:
        q, k, v = (
            part(x).unflatten(-1, (2, 8)).transpose(0, 1)
            for part in (block.attention.q, block.attention.k, block.attention.v)
        )
        below = q @ k.mT / math.sqrt(8) + below
        seen = below.masked_fill(torch.ones(len(x), len(x)).triu(1) > 0, -torch.inf) if causal else below
        said = block.attention.out((seen.softmax(-1) @ v).transpose(0, 1).flatten(1))
        x = block.attention_residual.norm(x + said)
        x = block.feed_residual.norm(x + block.feed(x))
    return x


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_formula(causal):
    made, rows = stack(causal=causal), Rows.of([7, 1, 4])
    x = torch.randn(rows.total, 16, dtype=torch.float64)
    found = rows.split(made.read(x, rows))
    for row, states in zip(rows.split(x), found, strict=True):
        torch.testing.assert_close(states, by_formula(made, row, causal))
    with watch(made) as seen:
        watched = made.read(x, rows)
    assert torch.equal(torch.cat(found), watched)
    first, *_, last = (calls[0][0] for calls in seen.values())
    assert not torch.allclose(first, last)


def test_gradients_go_through_the_scores():
    made, rows = stack(), Rows.of([7])
    x = torch.randn(7, 16, dtype=torch.float64, requires_grad=True)
    ours = torch.autograd.grad(made.read(x, rows).square().sum(), [x, *made.blocks[0].attention.q.parameters()])
    wanted = torch.autograd.grad(
        by_formula(made, x, False).square().sum(), [x, *made.blocks[0].attention.q.parameters()]
    )
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one, other)


@torch.no_grad()
def test_a_language_model_reads_by_parts_what_it_reads_at_once():
    config = change(gpt2(3, 16, 2, 40, longest=24), "stack.residual_scores", True)
    model = new_encoder("gpt2", config, {"write"}).model
    plain = new_encoder("gpt2", change(config, "stack.residual_scores", False), {"write"}).model
    for weight in model.parameters():
        weight.normal_(0, 0.3)
    plain.load_state_dict(model.state_dict())
    rows = [[3, 5, 7, 9, 11], [4, 6], [8, 10, 12]]
    whole = Tokens.of(rows).rows.split(model.read(Tokens.of(rows))[0])
    _, state = model.read(Tokens.of([row[:1] for row in rows]))
    for place in range(1, 5):
        states, state = model.read(Tokens.of([row[place : place + 1] or [3] for row in rows]), state)
        for states_of_row, row, wanted in zip(states, rows, whole, strict=True):
            if place < len(row):
                torch.testing.assert_close(states_of_row, wanted[place], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(plain(Tokens.of(rows)), torch.cat(whole))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["transformer", "t5"])
def test_a_translator_steps_as_it_reads(kind):
    torch.manual_seed(0)
    config = transformer(2, 16, 2, 32, vocab=17) if kind == "transformer" else t5(2, 16, 2, 32, size=6, vocab=17)
    for side in ("encoder", "decoder"):
        config = change(config, f"{side}.residual_scores", True)
    model = (Transformer if kind == "transformer" else T5)(config).eval()
    sources, targets = Tokens.of([[5, 3, 8, 2], [4]]), [[1, 6, 4], [1, 3, 5]]
    wanted = Tokens.of(targets).rows.split(model.logits(model(sources, Tokens.of(targets))))
    state = model.start(sources)
    for place in range(3):
        logits, state = model.step(torch.tensor([row[place] for row in targets]), state)
        for row in range(2):
            torch.testing.assert_close(logits[row], wanted[row][place], atol=1e-5, rtol=1e-5)
