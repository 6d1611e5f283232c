"""PPO's losses, advantages and controller beside their formulas, written out plainly with loops."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from regard.errors import Problem
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.objectives.clipped import Clipped, Clipping, advantages, entropy, held, scale_of, whitened
from regard.objectives.continued import continued, places, summed, taken, told
from regard.rows import Rows, Tokens

PROMPTS = [[3, 4], [5], [6, 7, 8]]
WRITTEN = [[9, 3, 1], [4], [2, 9, 9, 1]]
WORTH = torch.tensor([1.0, -1.0, 0.5])
VOCAB = 11


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    found = new_encoder("gpt2", gpt2(2, 16, 2, vocab=VOCAB, longest=12, dropout=0.0), {"write"}).model
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return found


@pytest.fixture
def batch():
    """What a phase hands to a step: made up, so that every branch of the formulas is met."""
    draw = torch.Generator().manual_seed(1)
    rows = continued(PROMPTS, WRITTEN)

    def drawn(count: int) -> torch.Tensor:
        return torch.randn(count, generator=draw)

    each = {"before": drawn(8) - 2.4, "advantages": drawn(8), "values": drawn(8) / 3, "returns": drawn(8)}
    return {**rows, **each, **{name: drawn(3) for name in ("reward", "kl", "coefficient", "length")}}


def states_alone(model, prompt, written):
    """The states and chances of one text by itself, token by token."""
    ids = prompt + written
    states = model(Tokens.of([ids]))
    chances = model.logits(states).log_softmax(-1)
    first = len(prompt) - 1
    return [(states[first + n], chances[first + n], word) for n, word in enumerate(written)]


def test_written_tokens_are_told_by_the_tokens_before_them(model):
    rows = continued(PROMPTS, WRITTEN)
    assert rows["tokens"].tolist() == [[3, 4, 9, 3], [5], [6, 7, 8, 2, 9, 9]]
    assert places(rows["tokens"].rows, rows["written"]).tolist() == [1, 2, 3, 4, 7, 8, 9, 10]
    states, logits = told(model, rows)
    alone = [one for pair in zip(PROMPTS, WRITTEN, strict=True) for one in states_alone(model, *pair)]
    torch.testing.assert_close(states, torch.stack([state for state, _, _ in alone]))
    torch.testing.assert_close(logits.log_softmax(-1), torch.stack([chances for _, chances, _ in alone]))


def test_some_texts_are_taken_with_all_that_belongs_to_them():
    rows = continued(PROMPTS, WRITTEN) | {"worth": torch.tensor([0.1, 0.2, 0.3]), "values": torch.arange(8)}
    some = taken(rows, torch.tensor([2, 0]))
    assert some["tokens"].tolist() == [[6, 7, 8, 2, 9, 9], [3, 4, 9, 3]]
    assert some["words"].tolist() == [2, 9, 9, 1, 9, 3, 1] and some["values"].tolist() == [4, 5, 6, 7, 0, 1, 2]
    assert some["worth"].tolist() == pytest.approx([0.3, 0.1])


def test_the_losses_are_those_of_the_formula(model, batch):
    how = Clipping(ratio=0.2, value=0.3, value_weight=0.5)
    objective = Clipped(16, None, how)
    torch.nn.init.normal_(objective.value.weight, std=0.2)
    result = objective.judge_some(model, batch)
    policy = value = clipped = spread = 0.0
    every = [one for pair in zip(PROMPTS, WRITTEN, strict=True) for one in states_alone(model, *pair)]
    for number, (state, chances, word) in enumerate(every):
        before, gain, was, wanted = (
            batch[name][number].item() for name in ("before", "advantages", "values", "returns")
        )
        ratio = math.exp(chances[word].item() - before)
        policy -= min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain)
        clipped += ratio < 0.8 or ratio > 1.2
        now = objective.value(state).item()
        near = min(max(now, was - 0.3), was + 0.3)
        value += max((now - wanted) ** 2, (near - wanted) ** 2) / 2
        spread -= sum(p.exp().item() * p.item() for p in chances)
    assert result.count.item() == 8
    assert result.loss.item() == pytest.approx(policy + 0.5 * value, rel=1e-5)
    found = {name: part.item() for name, part in result.parts.items()}
    assert found["policy_loss"] == pytest.approx(policy, rel=1e-5)
    assert found["value_loss"] == pytest.approx(value, rel=1e-5)
    assert found["clipped"] == clipped and 0 < clipped < 8
    assert found["entropy"] == pytest.approx(spread, rel=1e-5)
    assert found["reward"] / 8 == pytest.approx(batch["reward"].mean().item(), rel=1e-5)


def test_two_halves_of_the_texts_have_the_gradient_of_all(model, batch):
    objective = Clipped(16, None, Clipping())
    torch.nn.init.normal_(objective.value.weight, std=0.2)
    parameters = [*model.parameters(), *objective.parameters()]

    def gradients(*parts):
        for parameter in parameters:
            parameter.grad = None
        for part in parts:
            objective.judge_some(model, taken(batch, torch.tensor(part))).loss.backward()
        return [parameter.grad.clone() for parameter in parameters]

    for whole, halves in zip(gradients([0, 1, 2]), gradients([0], [1, 2]), strict=True):
        torch.testing.assert_close(whole, halves, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("discount, trace", [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.9, 0.0)])
def test_advantages_are_sums_of_surprises(discount, trace):
    draw = torch.Generator().manual_seed(2)
    rows = Rows.of([3, 1, 4])
    rewards, values = torch.randn(8, generator=draw), torch.randn(8, generator=draw)
    wanted = []
    for reward, value in zip(rows.split(rewards), rows.split(values), strict=True):
        length = len(reward)
        following = [*value[1:].tolist(), 0.0]
        surprises = [reward[t].item() + discount * following[t] - value[t].item() for t in range(length)]
        wanted += [
            sum((discount * trace) ** (later - t) * surprises[later] for later in range(t, length))
            for t in range(length)
        ]
    found = advantages(rewards, values, rows, discount, trace)
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_the_price_of_kl_is_led_to_the_target():
    how = Clipping(target=6.0, gain=0.1)
    assert held(0.2, 6.0, how) == 0.2
    assert held(0.2, 6.6, how) == pytest.approx(0.2 * (1 + 0.1 * 0.1))
    assert held(0.2, 600.0, how) == pytest.approx(0.2 * 1.02) and held(0.2, 0.0, how) == pytest.approx(0.2 * 0.98)
    assert held(0.2, 600.0, Clipping(gain=0.0)) == 0.2
    assert held(how.coefficient, 0.0, how) == how.coefficient  # not below where it began


def test_whitened_and_summed():
    values = torch.tensor([1.0, 2.0, 6.0])
    assert whitened(values).mean().item() == pytest.approx(0, abs=1e-6)
    assert whitened(values).pow(2).mean().item() == pytest.approx(1, rel=1e-5)
    assert whitened(torch.ones(4)).tolist() == [0.0] * 4  # all alike: nothing to learn, and no division by nothing
    assert summed(values, Rows.of([2, 1])).tolist() == [3.0, 6.0]
    assert entropy(torch.zeros(1, VOCAB)).item() == pytest.approx(math.log(VOCAB), rel=1e-5)


def test_rewards_are_counted_by_how_much_the_first_ones_differ(model):
    """So that a reward model that speaks ten times as loud, or never blames, teaches the same."""
    found = []
    for worth in (WORTH, 10 * WORTH + 20):
        objective = Clipped(16, lambda *given, worth=worth: written_so(*given) | {"worth": worth}, Clipping())
        objective.judge(model, {"turn": 0, "prompts": None, "seed": 0, "chosen": torch.arange(3)})
        found.append(objective.phases[0])
    torch.testing.assert_close(found[0]["returns"], found[1]["returns"])
    assert found[1]["reward"].tolist() == (10 * WORTH + 20).tolist()  # told as they are
    assert scale_of(torch.ones(4)) == (1.0, 1.0)  # all alike: no unit


def written_so(model, prompts, seed):
    found = continued(PROMPTS, WRITTEN)
    return {**found, "worth": WORTH, "reference": torch.full((8,), -2.0)}


def test_a_phase_is_rewarded_for_its_worth_and_charged_for_its_kl(model):
    how = Clipping(coefficient=0.3, discount=1.0, trace=1.0)
    objective = Clipped(16, written_so, how)
    result = objective.judge(model, {"turn": 0, "prompts": None, "seed": 0, "chosen": torch.arange(3)})
    middle, unit = statistics.mean([1.0, -1.0, 0.5]), statistics.pstdev([1.0, -1.0, 0.5])
    phase, every = objective.phases[0], zip(PROMPTS, WRITTEN, [1.0, -1.0, 0.5], strict=True)
    for row, (prompt, written, worth) in enumerate(every):
        chances = [chances[word].item() for _, chances, word in states_alone(model, prompt, written)]
        prices = [-0.3 * (chance + 2.0) for chance in chances]
        prices[-1] += (worth - middle) / unit
        returns = [sum(prices[t:]) for t in range(len(prices))]  # values are zeros in the beginning
        assert phase["written"].split(phase["returns"])[row].tolist() == pytest.approx(returns, rel=1e-4, abs=1e-5)
        assert phase["kl"][row].item() == pytest.approx(sum(chance + 2.0 for chance in chances), rel=1e-4)
    assert result.parts["clipped"].item() == 0  # no step has been taken: every ratio is one
    assert result.parts["policy_loss"].item() == pytest.approx(0, abs=1e-5)


def test_what_a_phase_left_is_carried(model):
    objective, again = (Clipped(16, written_so, Clipping()) for _ in range(2))
    objective.judge(model, {"turn": 1, "prompts": None, "seed": 0, "chosen": torch.arange(3)})
    again.carry(model, {name: tensor.clone() for name, tensor in objective.carried().items()})
    assert again.coefficients == objective.coefficients and again.scales == objective.scales
    step = {"turn": 1, "chosen": torch.tensor([2, 0])}
    assert again.judge(model, step).loss.item() == objective.judge(model, step).loss.item()
    with pytest.raises(Problem, match="not saved with the checkpoint"):
        again.judge(model, {"turn": 0, "chosen": torch.tensor([0])})
