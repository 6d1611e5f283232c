"""Sound on a GPU: the numbers of the CPU, for both objectives, values and gradients."""

from __future__ import annotations

import copy

import pytest
import torch

from regard.models.heads import new_encoder
from regard.models.wav2vec2 import PRESETS
from regard.objectives.contrast import Contrast
from regard.objectives.ctc import CTC
from regard.objectives.objective import Asked, to_device
from regard.rows import Tokens

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CONFIG, LENGTHS = PRESETS["wav2vec2-tiny"], [4000, 1234, 9000]


def asked(role: str) -> Asked:
    torch.manual_seed(0)
    objective = Contrast(CONFIG) if role == "contrast" else CTC(CONFIG, blank=0)
    return Asked(new_encoder("wav2vec2", CONFIG, {role}, 9).model, objective).eval()


@pytest.mark.parametrize("role", ["contrast", "transcribe"])
def test_the_numbers_of_the_cpu(role):
    one = asked(role)
    other = copy.deepcopy(one).to("cuda")
    letters = Tokens.of([[1, 2, 3, 3], [4], [5, 6, 7, 8]])
    batch = one.prepare({"wave": torch.randn(sum(LENGTHS)), "lengths": LENGTHS, "letters": letters})
    here, there = one(batch), other(to_device(batch, "cuda"))
    torch.testing.assert_close(there.loss.cpu(), here.loss, rtol=1e-3, atol=1e-2)
    here.loss.backward()
    there.loss.backward()
    for (name, left), right in zip(one.named_parameters(), other.parameters(), strict=True):
        if left.grad is not None:
            scale = left.grad.abs().max().clamp(min=1e-3)
            torch.testing.assert_close(right.grad.cpu() / scale, left.grad / scale, rtol=0, atol=2e-2, msg=name)


@pytest.mark.parametrize("role", ["contrast", "transcribe"])
def test_a_step_in_half_precision(role):
    one = asked(role).to("cuda").train()
    letters = Tokens.of([[1, 2, 3, 3], [4], [5, 6, 7, 8]])
    batch = one.prepare({"wave": torch.randn(sum(LENGTHS)), "lengths": LENGTHS, "letters": letters})
    with torch.autocast("cuda", torch.bfloat16):
        result = one(to_device(batch, "cuda"))
    result.loss.backward()
    assert result.loss.isfinite() and all(p.grad is None or p.grad.isfinite().all() for p in one.parameters())
