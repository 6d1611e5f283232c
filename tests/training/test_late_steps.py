"""Steps that are launched before the last one is heard of, as on a GPU: the run is the same, and so is its end."""

from dataclasses import replace

import pytest
import torch
from test_resume import interrupt
from test_step import Poisoned, PoisonedRows
from tiny_run import CONFIG, TinyModel, assert_equal, records, run

from regard.errors import Problem
from regard.objectives.objective import Asked
from regard.training.step import Stepper

QUIET = replace(CONFIG, report_every=1000, evaluate_every=0, save_every=5, average=0)


@pytest.fixture
def taken(monkeypatch, request):
    """What is launched and what is heard of, in their order, where one step may be under way, or more."""
    order, begin, take, measured = [], Stepper.__init__, Stepper.take, Stepper.measured

    def late(self, *given):
        begin(self, *given)
        self.late = getattr(request, "param", 1)

    monkeypatch.setattr(Stepper, "__init__", late)
    monkeypatch.setattr(Stepper, "take", lambda self, step, *rest: order.append(step) or take(self, step, *rest))
    monkeypatch.setattr(Stepper, "measured", lambda self, one: order.append(-one.step) or measured(self, one))
    return order


def numbers(folder):
    """What was told, but for the times."""
    timed = {"tokens_per_second", "seconds"}
    return [{name: value for name, value in record.items() if name not in timed} for record in records(folder)]


def test_the_run_is_the_same(tmp_path, request):
    prompt = run(tmp_path / "prompt")
    order = request.getfixturevalue("taken")
    late = run(tmp_path / "late")
    assert_equal(prompt.weights, late.weights)
    assert numbers(tmp_path / "prompt") == numbers(tmp_path / "late")
    assert [step for step in order if step > 0] == [*range(1, 12)]


def test_a_step_is_heard_of_once_the_next_is_launched_or_before_it_is_saved(tmp_path, taken):
    run(tmp_path, QUIET, evaluate=None)
    assert taken[:11] == [0, 1, 0, 2, -1, 3, -2, 4, -3, -4, 5]


@pytest.mark.parametrize("taken", [3], indirect=True)
def test_several_may_be_under_way(tmp_path, taken):
    run(tmp_path, QUIET, evaluate=None)
    assert taken[:11] == [0, 1, 2, 3, 0, 4, -1, -2, -3, -4, 5]


def test_nan_is_named_after_the_next_launch_and_neither_step_is_taken(tmp_path, taken):
    torch.manual_seed(7)
    asked = Asked(TinyModel(0.3), Poisoned(0.2))
    with pytest.raises(Problem, match=r"Step 8 \(micro-batches 7 to 7\): the loss is nan.*model\.embed\.weight"):
        run(tmp_path / "bad", QUIET, PoisonedRows(), asked, evaluate=None)
    assert taken[-2:] == [8, -7]
    good = run(tmp_path / "good", replace(QUIET, steps=7), evaluate=None)
    assert_equal(dict(asked.state_dict()), good.weights)


def test_a_signal_is_heard_of_at_once(tmp_path, taken):
    stopped = interrupt(tmp_path / "stopped", QUIET, evaluate=None)
    assert taken[-2:] == [stopped.step - 1, 1 - stopped.step]
    resumed, whole = run(tmp_path / "stopped", QUIET, evaluate=None), run(tmp_path / "whole", QUIET, evaluate=None)
    assert_equal(resumed.weights, whole.weights)
