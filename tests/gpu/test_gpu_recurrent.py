"""Recurrent language models by cuDNN: the same numbers as on a CPU, and half precision that learns."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from regard.config import change
from regard.models.elmo import elmo
from regard.models.heads import new_encoder
from regard.models.lstm import awd_lstm, lstm
from regard.rows import Rows, Tokens
from regard.tasks.reader import reading_of
from regard.text.tokenizer import Tokenizer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WORDS = [f"word{number}" for number in range(90)]
TOKENIZER = Tokenizer.train("words", [" ".join(WORDS)], 100)
VOCAB = TOKENIZER.size
CONFIGS = {
    "vanilla": ("lstm", lstm(64, 2, cell="vanilla", vocab=VOCAB, dropout=0.0)),
    "gru": ("lstm", lstm(64, 2, cell="gru", vocab=VOCAB, dropout=0.0)),
    "awd": ("lstm", awd_lstm(64, 96, 3, VOCAB)),
    "both": ("lstm", lstm(64, 2, way="both", vocab=VOCAB, dropout=0.0)),
    "elmo": ("elmo", elmo(32, 64, (8, 16, 32), VOCAB)),
}
RAGGED = Tokens.of([torch.randint(3, VOCAB, (length,)).tolist() for length in (40, 7, 0, 128, 3)])
EVEN = Tokens(torch.randint(3, VOCAB, (6 * 35,)), Rows.even(6, 35))


def model_of(name: str):
    torch.manual_seed(0)
    family, config = CONFIGS[name]
    model = new_encoder(family, config, {"write"}).model
    reading_of(model.encoder, TOKENIZER)
    return model


@torch.no_grad()
@pytest.mark.parametrize("tokens", [RAGGED, EVEN], ids=["ragged", "even"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_layer_is_as_on_a_cpu(name, tokens):
    torch.backends.cudnn.allow_tf32 = False
    model = model_of(name)
    wanted = list(model.encoder.layers(tokens))
    for got, right in zip(model.cuda().encoder.layers(tokens.to("cuda")), wanted, strict=True):
        torch.testing.assert_close(got.cpu(), right, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_reading_in_parts_is_reading_at_once():
    model = model_of("awd").cuda()
    whole, state = model.read(EVEN.to("cuda"))
    first = Tokens(EVEN.ids.view(6, 35)[:, :20].flatten(), Rows.even(6, 20)).to("cuda")
    rest = Tokens(EVEN.ids.view(6, 35)[:, 20:].flatten(), Rows.even(6, 15)).to("cuda")
    later, now = model.read(rest, model.read(first)[1])
    torch.testing.assert_close(later, whole.view(6, 35, -1)[:, 20:].flatten(0, 1), rtol=1e-3, atol=1e-4)
    for got, wanted in zip(now.tensors(), state.tensors(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("tokens", [RAGGED, EVEN], ids=["ragged", "even"])
@pytest.mark.parametrize("name", CONFIGS)
def test_it_learns_with_its_dropouts(name, tokens, precision):
    model, tokens = model_of(name).cuda().train(), tokens.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    wanted, losses = tokens.ids.roll(-1), []
    for _ in range(20):
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            logits = model.logits(model.encoder.top(tokens)[:, : model.encoder.config.recurrent.last])
            loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_gradients_are_as_on_a_cpu():
    config = change(replace(awd_lstm(64, 96, 3, VOCAB), dropout=0.0, word_dropout=0.0), "embedding.dropout", 0.0)
    config = change(change(config, "recurrent.dropout", 0.0), "recurrent.weight_dropout", 0.0)
    torch.backends.cudnn.allow_tf32 = False
    here = new_encoder("lstm", config, {"write"}).model.train()
    there = copy.deepcopy(here).cuda()
    for model, tokens in ((here, RAGGED), (there, RAGGED.to("cuda"))):
        model.read(tokens)[0].square().sum().backward()
    for (name, one), two in zip(here.named_parameters(), there.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(two.grad.cpu(), one.grad, rtol=1e-3, atol=1e-4, msg=name)
