"""Cross-entropy by portions, against torch's own: sums, gradients, half precision, and compiled."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.objectives import cross_entropy as module
from regard.objectives.cross_entropy import by_torch, cross_entropy, fused_losses
from regard.objectives.language import told
from regard.objectives.reading import answered

ROWS, VOCABULARY = 13, 7


def question(dtype=torch.double, spread=3.0):
    torch.manual_seed(0)
    logits = (spread * torch.randn(ROWS, VOCABULARY, dtype=torch.double)).to(dtype).requires_grad_()
    return logits, torch.randint(VOCABULARY, (ROWS,))


def judged(judge, logits, wanted, smoothing, change=1.0):
    loss, right = judge(logits, wanted, smoothing)
    (gradient,) = torch.autograd.grad(change * loss, logits)
    return loss, right, gradient


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("at_once", [1, 3 * VOCABULARY, 1000], ids=["a row", "three rows", "all"])
def test_it_is_torchs_own(monkeypatch, at_once, smoothing):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    logits, wanted = question()
    found = judged(cross_entropy, logits, wanted, smoothing, change=-2.5)
    for one, other in zip(found, judged(by_torch, logits, wanted, smoothing, change=-2.5), strict=True):
        torch.testing.assert_close(one, other)
    assert found[0].dtype == torch.double and not found[1].requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_half_precision_is_as_exact_as_torchs(smoothing):
    """The loss is summed in float32; gradients are rounded once, also where the answer is almost certain."""
    logits, wanted = question(torch.bfloat16)
    with torch.no_grad():
        logits[0, wanted[0]] = logits[0].amax() + 8
    loss, _, gradient = judged(cross_entropy, logits, wanted, smoothing)
    exact = logits.detach().double().requires_grad_()
    exact_loss, _, exact_gradient = judged(by_torch, exact, wanted, smoothing)
    assert loss.dtype == torch.float32 and gradient.dtype == torch.bfloat16
    torch.testing.assert_close(loss.double(), exact_loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.double(), exact_gradient, rtol=2**-7, atol=2**-9 * smoothing)


def test_gradients_in_double_precision():
    logits, wanted = question()
    torch.autograd.gradcheck(lambda x: cross_entropy(x, wanted, 0.2)[0], logits)


def test_under_autocast_logits_are_not_copied():
    torch.manual_seed(0)
    states, table = torch.randn(5, 8), torch.randn(VOCABULARY, 8, requires_grad=True)
    wanted = torch.randint(VOCABULARY, (5,))
    gradients = []
    for judge in (cross_entropy, by_torch):
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = judge(F.linear(states, table), wanted, 0.0)
        assert loss.dtype == torch.float32
        gradients += torch.autograd.grad(loss, table)
    torch.testing.assert_close(*gradients, rtol=1e-2, atol=1e-2)


def test_nothing_is_asked():
    logits = torch.zeros(0, VOCABULARY, requires_grad=True)
    loss, right = cross_entropy(logits, torch.zeros(0, dtype=torch.long))
    loss.backward()
    assert loss == 0 and right == 0 and logits.grad.shape == (0, VOCABULARY)


def test_of_rare_words_the_last_that_is_told_stands_for_all():
    logits, _ = question(torch.float32)
    wanted = torch.full((ROWS,), VOCABULARY + 5)
    assert told(logits, wanted).loss == answered(logits, torch.full_like(wanted, VOCABULARY - 1)).loss


def test_compiled_it_is_the_same():
    torch.compiler.reset()
    module.compiled.cache_clear()
    logits, wanted = question(torch.float32)
    plain = judged(cross_entropy, logits, wanted, 0.1)
    with fused_losses(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "compiled", lambda: torch.compile(by_torch, backend="aot_eager", fullgraph=True))
        found = judged(cross_entropy, logits, wanted, 0.1)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other)
