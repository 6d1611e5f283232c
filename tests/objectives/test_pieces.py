"""Logits made a piece at a time give the same loss and the same gradients."""

from __future__ import annotations

import torch

from regard.objectives import pieces
from regard.objectives.pieces import answered_in_pieces
from regard.objectives.reading import answered


def test_pieces_are_the_whole(monkeypatch):
    torch.manual_seed(0)
    head, wanted = torch.nn.Linear(8, 11).double(), torch.randint(11, (50,))
    states = torch.randn(50, 8, dtype=torch.float64, requires_grad=True)
    whole = answered(head(states), wanted)
    right = torch.autograd.grad(whole.loss, [states, *head.parameters()])
    for most in (2**26, 11 * 7, 1):
        monkeypatch.setattr(pieces, "LOGITS", most)
        found = answered_in_pieces(head, states, wanted, 11)
        assert found.count == whole.count and found.parts["right"] == whole.parts["right"]
        torch.testing.assert_close(found.loss, whole.loss)
        for one, other in zip(torch.autograd.grad(found.loss, [states, *head.parameters()]), right, strict=True):
            torch.testing.assert_close(one, other)
        with torch.no_grad():
            torch.testing.assert_close(answered_in_pieces(head, states, wanted, 11).loss, whole.loss)
