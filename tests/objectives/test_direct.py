"""What pairs ask, of a reward model and of a language model itself, beside the formulas."""

from __future__ import annotations

import math

import pytest
import torch

from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.objectives.direct import Direct, text_probabilities
from regard.objectives.objective import Asked
from regard.objectives.preferred import preferred
from regard.rows import Tokens

PROMPTS = [[3, 4], [5]]
TEXTS = [[9, 3, 1], [4, 1], [7], [2, 9, 9]]  # the chosen one of each pair, then the other


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    found = new_encoder("gpt2", gpt2(1, 16, 2, vocab=11, longest=12, dropout=0.0), {"write"}).model
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return found


def question(reference) -> dict:
    tokens = {"prompts": Tokens.of(PROMPTS), "texts": Tokens.of(TEXTS)}
    return Direct(0.5).prepare({**tokens, "reference": torch.tensor(reference)})


def chance(model, prompt, text) -> float:
    chances = model.logits(model(Tokens.of([prompt + text]))).log_softmax(-1)
    return sum(chances[len(prompt) - 1 + n, word].item() for n, word in enumerate(text))


def test_bradley_and_terry():
    worth = torch.tensor([[2.0, 1.0], [0.5, 3.0], [1.0, 1.0]])
    result = preferred(worth)
    shares = [math.exp(a) / (math.exp(a) + math.exp(b)) for a, b in worth.tolist()]
    assert result.loss.item() == pytest.approx(-sum(map(math.log, shares)), rel=1e-6)
    assert (result.count.item(), result.parts["right"].item()) == (3, 1)  # a tie is not right
    assert result.parts["margin"].item() == pytest.approx(1.0 - 2.5)


def test_the_loss_is_that_of_the_formula(model):
    reference = [-7.0, -4.0, -3.0, -8.0]
    result = Direct(0.5).judge(model, question(reference))
    now = [chance(model, PROMPTS[n // 2], text) for n, text in enumerate(TEXTS)]
    worth = [0.5 * (a - b) for a, b in zip(now, reference, strict=True)]
    margins = [worth[0] - worth[1], worth[2] - worth[3]]
    assert result.loss.item() == pytest.approx(sum(math.log(1 + math.exp(-m)) for m in margins), rel=1e-5)
    assert result.parts["right"].item() == sum(m > 0 for m in margins)
    assert result.parts["chosen"].item() == pytest.approx(worth[0] + worth[2], rel=1e-4)
    assert result.parts["rejected"].item() == pytest.approx(worth[1] + worth[3], rel=1e-4)


def test_where_it_begins_no_text_is_worth_more(model):
    first = text_probabilities(model, question([0.0] * 4)).detach()
    result = Direct(0.1).judge(model, question(first.tolist()))
    assert result.loss.item() == pytest.approx(2 * math.log(2), rel=1e-6)


def test_pairs_are_learned(model):
    asked = Asked(model, Direct(0.5))
    batch = question(text_probabilities(model, question([0.0] * 4)).tolist())
    optimizer = torch.optim.AdamW(asked.parameters(), 1e-2)
    for _ in range(20):
        result = asked(batch)
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
    assert result.parts["right"].item() == 2 and result.loss.item() < 0.7
