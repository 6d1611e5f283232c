"""A mix of layers: what it makes of them, how it is written, and that a task finds the layers that serve it."""

import pytest
import torch
import torch.nn.functional as F

from regard.errors import UsageProblem
from regard.tasks.mix import Mix, learn_mix


def planted(layers: int = 4, at: int = 2, count: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise in which one layer alone knows the label, and one number of a vector never changes."""
    torch.manual_seed(0)
    labels = torch.randint(3, (count,))
    states = torch.randn(count, layers, 8)
    states[:, at, :3] += 3 * F.one_hot(labels, 3)
    states[:, :, 7] = 5.0
    return states, labels


def test_the_layer_that_knows_gets_the_largest_share():
    states, labels = planted()
    mix = learn_mix(states.clone(), labels, 0.01)
    assert mix.shares[2] > 0.6 and sum(mix.shares) == pytest.approx(1)
    assert mix == learn_mix(states, labels, 0.01), "the same seed gives the same mix"


def test_layers_that_know_alike_share_alike():
    states, labels = planted(layers=1, at=0)
    mix = learn_mix(states.repeat(1, 3, 1), labels, 0.01)
    assert mix.shares == pytest.approx([1 / 3] * 3, abs=1e-4)


def test_a_mix_is_a_weighted_sum():
    layers = [torch.ones(2, 3), torch.full((2, 3), 10.0)]
    assert torch.allclose(Mix((0.5, 0.25))(layers), torch.full((2, 3), 3.0))
    assert Mix((0.5, 0.25)).scale == 0.75 and Mix((0.5, 0.25)).shares == pytest.approx((2 / 3, 1 / 3))


def test_a_mix_is_read_as_it_is_written():
    mix = Mix((0.25, 1.5, 3e-05))
    assert str(mix) == "mix 0.25 1.5 3e-05" and Mix.of(str(mix)) == mix


@pytest.mark.parametrize("text", ["mix", "mix a b", "mix 0.5 nan", "mix 0.5 inf", "mix 0.5, 0.5"])
def test_what_is_no_mix_is_refused_with_an_example(text):
    with pytest.raises(UsageProblem, match=r"mix 0\.2 0\.3 0\.5"):
        Mix.of(text)


def test_a_mix_of_too_few_layers_is_refused():
    with pytest.raises(UsageProblem, match="2 weights does not fit: the model has 3 layers"):
        Mix((0.5, 0.5))([torch.ones(2, 3)] * 3)
