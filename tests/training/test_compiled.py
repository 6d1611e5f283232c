"""Compiled training: blocks trace whole, for rows of any lengths, and everything is undone at the end."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend

from regard.attention import attend
from regard.layers.block import Context, Trace
from regard.models.bert import bert
from regard.models.encoder import Encoder
from regard.models.gpt2 import gpt2
from regard.objectives.cross_entropy import FUSED
from regard.rows import Rows, Tokens
from regard.training.compiled import compiled, repeated

VOCAB = 50
CONFIGS = {
    "bert": bert(3, 32, 2, VOCAB, dropout=0.0),
    "gpt2": gpt2(3, 32, 2, VOCAB, dropout=0.0),
}
BATCHES = ([7, 30, 1, 12], [5, 21, 9], [3, 3, 9, 20, 2, 4])


@pytest.fixture
def traced(monkeypatch):
    """Compiled as it is, and refused where a graph breaks."""
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager", fullgraph=True))
    yield torch._dynamo.utils.counters["stats"]
    torch.compiler.reset()


def states_and_gradients(model: Encoder) -> list[torch.Tensor]:
    torch.manual_seed(0)
    found = []
    for lengths in BATCHES:
        model.zero_grad()
        states = model(Tokens.of([[5 + place % 40 for place in range(length)] for length in lengths]))
        states.square().sum().backward()
        found += [states.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    return found


@pytest.mark.parametrize("family", CONFIGS)
def test_blocks_are_one_graph_for_rows_of_any_length(family, traced):
    model = Encoder(CONFIGS[family]).train()
    wanted = states_and_gradients(model)
    with compiled(model):
        found = states_and_gradients(model)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert 0 < traced["unique_graphs"] <= 2  # on a CPU the first block also finds where padding goes


@pytest.mark.parametrize("family", CONFIGS)
def test_even_rows_have_their_own_kernel_in_one_graph_for_all_shapes(family, traced, monkeypatch):
    """As on a GPU: the choice of it, and what it is told of the mask, are plain answers in compiled code."""
    monkeypatch.setattr(attend, "flash_can", lambda *asked: True)
    monkeypatch.setattr(attend, "FASTEST", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
    model, found = Encoder(CONFIGS[family]).train(), []
    for launch in (nullcontext, compiled):
        with launch(model) if launch is compiled else launch():
            for count, length in ((8, 128), (9, 128), (10, 130)):
                ids = torch.arange(count * length) % VOCAB
                found.append(model(Tokens(ids, Rows.even(count, length))).detach())
    torch.testing.assert_close(found[3:], found[:3], rtol=1e-3, atol=1e-4)
    assert traced["unique_graphs"] <= 2


@pytest.mark.parametrize("family", CONFIGS)
def test_in_half_precision_a_stream_that_is_normed_is_in_half_precision(family, traced):
    model, tokens = Encoder(CONFIGS[family]).train(), Tokens.of([[7, 8, 9], [4]])
    with compiled(model), torch.autocast("cpu", torch.bfloat16):
        assert model(tokens).dtype == (torch.bfloat16 if family == "bert" else torch.float32)
        assert model.eval()(tokens).dtype == torch.float32


def test_it_is_undone():
    model = Encoder(CONFIGS["bert"])
    blocks = repeated(model)
    with compiled(model):
        assert all(block._compiled_call_impl is not None for block in blocks) and FUSED.get()
    assert all(block._compiled_call_impl is None for block in blocks) and not FUSED.get()


def test_where_nothing_is_repeated_all_is_compiled():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with compiled(model):
        assert model._compiled_call_impl is not None


def test_whole_rows_leave_no_traces():
    """What leaves a compiled block has gradients that come back, zeros or not."""
    model, tokens = Encoder(CONFIGS["gpt2"]).eval(), Tokens.of([[7, 8, 9], [4]])
    x, see = model.embedded(tokens), Context(tokens.rows, model.stack.mask)
    kept = model.stack.blocks[0](x, see, Trace())[1]
    left = model.stack.blocks[0](x, Context(tokens.rows, model.stack.mask, forgets=True), Trace())[1]
    assert kept.own is not None and left.own is None and left.source is None
    torch.testing.assert_close(model(tokens), model.read(tokens)[0])
