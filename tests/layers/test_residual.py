"""The norm before the layer or after the sum."""

from __future__ import annotations

import torch
from torch import nn

from regard.layers.feed_forward import FeedForward
from regard.layers.residual import Residual


def joined(norm_first: bool):
    torch.manual_seed(0)
    residual, layer, x = (
        Residual(nn.LayerNorm(8), 0.5, norm_first=norm_first).eval(),
        nn.Linear(8, 8),
        torch.randn(3, 8) * 4,
    )
    nn.init.normal_(residual.norm.weight)
    return residual.norm, layer, x, residual.after(x, layer(residual.before(x)))


def test_norm_first():
    norm, layer, x, got = joined(True)
    torch.testing.assert_close(got, x + layer(norm(x)))


def test_norm_last():
    norm, layer, x, got = joined(False)
    torch.testing.assert_close(got, norm(x + layer(x)))


def test_dropout_is_on_what_is_added_and_not_on_the_stream():
    residual, x = Residual(nn.LayerNorm(8), 0.9, norm_first=True), torch.ones(1000, 8)
    said = residual.after(x, torch.ones_like(x)) - x
    assert set(said.round(decimals=3).unique().tolist()) == {0.0, 10.0}


def test_feed_forward_is_two_layers_with_the_activation_between():
    for name, function in {"relu": torch.relu, "gelu": nn.functional.gelu, "swish": nn.functional.silu}.items():
        feed, x = FeedForward(4, 6, name, 0.5).eval(), torch.randn(3, 4)
        torch.testing.assert_close(feed(x), feed.down(function(feed.up(x))))
