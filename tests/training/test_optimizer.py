import math

import pytest
import torch
from tiny_run import TinyModel
from torch import nn

from regard.errors import UsageProblem
from regard.objectives.objective import Asked, Objective
from regard.training.optimizer import adamw, rate_at
from regard.training.settings import OptimizerConfig, TrainingConfig

SCHEDULES = ["inverse-square-root", "linear", "cosine", "constant"]


def test_inverse_square_root_is_the_papers():
    """rate = width^-0.5 * min(step^-0.5, step * warmup^-1.5), here by its peak."""
    warmup, width = 4000, 512
    config = OptimizerConfig(rate=(width * warmup) ** -0.5, warmup=warmup)
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert math.isclose(rate_at(step, 100_000, config), paper)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_to_its_peak_and_never_wastes_a_step(schedule):
    config = OptimizerConfig(rate=0.1, schedule=schedule, warmup=10)
    rates = [rate_at(step, 100, config) for step in range(1, 101)]
    assert rates[:10] == pytest.approx([0.01 * step for step in range(1, 11)])
    assert max(rates) == pytest.approx(0.1)
    assert all(rate > 0 for rate in rates)
    assert rates[10:] == sorted(rates[10:], reverse=True)


@pytest.mark.parametrize(("steps", "cut"), [(1000, 100), (50, 5), (30, 15), (19, 1)])
def test_slanted_is_the_papers(steps, cut):
    """Howard and Ruder 2018, equation 3, for t from 1 to T."""
    config, cut_frac, ratio = OptimizerConfig(rate=0.01, schedule="slanted", warmup=cut), cut / steps, 32
    for t in range(1, steps + 1):
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
        assert math.isclose(rate_at(t, steps, config), 0.01 * (1 + p * (ratio - 1)) / ratio), t


@pytest.mark.parametrize(("steps", "cut"), [(100, 10), (7, 0), (9, 9), (1, 0), (1, 1)])
def test_slanted_rises_to_its_peak_and_ends_at_its_lowest(steps, cut):
    config = OptimizerConfig(rate=0.32, schedule="slanted", warmup=cut)
    rates = [rate_at(step, steps, config) for step in range(1, steps + 1)]
    assert 0.01 - 1e-9 <= min(rates) <= max(rates) <= 0.32
    rising, falling = rates[:cut], rates[max(cut - 1, 0) :]
    assert rising == sorted(rising) and falling == sorted(falling, reverse=True)
    assert not cut or rates[cut - 1] == 0.32
    assert cut == steps or rates[-1] == pytest.approx(0.01)


def test_known_points():
    def at(schedule, step, warmup=0):
        return rate_at(step, 100, OptimizerConfig(rate=1.0, schedule=schedule, warmup=warmup))

    assert at("linear", 1) == 1.0
    assert at("linear", 51) == 0.5
    assert at("linear", 100) == pytest.approx(0.01)
    assert at("linear", 61, warmup=20) == pytest.approx(0.5)
    assert at("cosine", 51) == pytest.approx(0.5)
    assert at("constant", 100) == 1.0
    assert at("inverse-square-root", 4) == 0.5


@pytest.mark.parametrize(
    "wrong",
    [{"discriminative": 0.5}, {"discriminative": math.inf}, {"unfreeze": -1},
     {"rate": 0.0}, {"rate": -1.0}, {"rate": 1e9}, {"rate": math.nan}, {"warmup": -1}, {"clip": -1.0},
     {"weight_decay": math.nan}, {"betas": (0.9, 1.0)}, {"epsilon": 0.0}],
)  # fmt: skip
def test_absurd_values_are_refused_by_name(wrong):
    with pytest.raises(UsageProblem, match=next(iter(wrong))):
        OptimizerConfig(**wrong)


def test_a_warm_up_longer_than_the_training_is_refused():
    with pytest.raises(UsageProblem, match=r"warmup=100 is more than steps=99"):
        TrainingConfig(steps=99, optimizer=OptimizerConfig(warmup=100))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"accumulate": 0}, {"save_every": 0}, {"keep": 0}, {"average": -1}])
def test_counts_are_checked(wrong):
    with pytest.raises(UsageProblem, match=next(iter(wrong))):
        TrainingConfig(**wrong)


@pytest.mark.parametrize("wrong", ["", "loss", "lowest", "best loss"])
def test_what_is_best_is_said_in_two_words(wrong):
    with pytest.raises(UsageProblem, match="highest bleu"):
        TrainingConfig(best=wrong)


@pytest.mark.parametrize(("best", "scores"), [("lowest loss", [3.0, 2.0]), ("highest bleu", [2.0, 3.0])])
def test_better_is_what_the_config_says(best, scores):
    config = TrainingConfig(best=best)
    assert config.improves(scores[0], None)
    assert config.improves(scores[1], scores[0])
    assert not config.improves(scores[0], scores[1])
    assert not config.improves(scores[0], scores[0])
    assert not config.improves(math.nan, None)
    assert not config.improves(math.nan, scores[0])


def test_matrices_decay_and_vectors_do_not():
    module = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    module[1].bias.requires_grad_(False)
    optimizer = adamw(module, OptimizerConfig(rate=0.1, weight_decay=0.5))
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    for name, parameter in module.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.5) if parameter.dim() > 1 else before[name]
        torch.testing.assert_close(parameter.detach(), expected)


class Heavy(Objective):
    """An objective with something of its own to learn."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(3))


def test_parts_have_their_own_rates_and_begin_in_turn():
    """Each parameter once: a tied table with what is lowest, what only the objective knows with the heads."""
    asked = Asked(TinyModel(0.0), Heavy())
    asked.model.inner.bias.requires_grad_(False)
    optimizer = adamw(asked, OptimizerConfig(discriminative=2.6, unfreeze=5, weight_decay=0.1))
    place = {p: (group["share"], group["begins"], group["weight_decay"])
             for group in optimizer.param_groups for p in group["params"]}  # fmt: skip
    named = {name: place[p] for name, p in asked.named_parameters() if p.requires_grad}
    assert named == {
        "model.embed.weight": (2.6**-2, 10, 0.1),
        "model.inner.weight": (2.6**-1, 5, 0.1),
        "model.out.bias": (1.0, 0, 0.0),
        "objective.weights": (1.0, 0, 0.0),
    }
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(named)


def test_parts_that_learn_nothing_are_no_parts():
    asked = Asked(TinyModel(0.0), Heavy())
    asked.model.inner.requires_grad_(False)
    begins = [group["begins"] for group in adamw(asked, OptimizerConfig(unfreeze=5)).param_groups]
    assert begins == [0, 5]


def test_rates_may_be_shares_of_what_numbers_begin_with():
    """As T5's are: a table of ones moves sixteen times as far as a matrix of sixteenths."""
    table, line = nn.Embedding(50, 256), nn.Linear(256, 50)
    nn.init.normal_(table.weight), nn.init.normal_(line.weight, std=1 / 16), nn.init.zeros_(line.bias)
    optimizer = adamw(nn.Sequential(table, line), OptimizerConfig(relative=True))
    shares = {p: group["share"] for group in optimizer.param_groups for p in group["params"]}
    assert [shares[p] for p in (table.weight, line.weight, line.bias)] == [1, 1 / 16, 2**-10]


def test_all_is_one_group_where_no_part_differs():
    """Two, with what does not decay, where the rest does."""
    for decay, sizes in ((0.0, [5]), (0.1, [2, 3])):
        groups = adamw(Asked(TinyModel(0.0), Heavy()), OptimizerConfig(weight_decay=decay)).param_groups
        assert [len(group["params"]) for group in groups] == sizes
        assert all((group["share"], group["begins"]) == (1.0, 0) for group in groups)


@pytest.mark.parametrize("wanted", [{"discriminative": 2.6}, {"unfreeze": 1}])
def test_a_model_that_does_not_tell_its_parts_is_refused(wanted):
    with pytest.raises(UsageProblem, match="Linear does not tell its parts by depth"):
        adamw(Asked(nn.Linear(2, 2), Heavy()), OptimizerConfig(**wanted))
