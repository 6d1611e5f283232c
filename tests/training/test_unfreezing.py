"""Gradual unfreezing (Howard and Ruder, 2018): parts learn in turn, from the top, and a run may stop in between."""

import signal
from dataclasses import replace

import pytest
import torch
from tiny_run import CONFIG, CountingRows, assert_equal, assert_near, records, run, saved, tiny

from regard.errors import UsageProblem

EVERY = 4
OPTIMIZER = replace(CONFIG.optimizer, schedule="slanted", discriminative=2.6, unfreeze=EVERY)
KEPT = replace(CONFIG, optimizer=OPTIMIZER, keep=99, save_every=1)
TURN = {"model.out.bias": 0, "model.inner.weight": 1, "model.inner.bias": 1, "model.embed.weight": 2}


def interrupt(folder, config, after):
    """Train for so many steps: a signal comes in the middle of the one before the last."""
    asked = tiny()
    prepare, calls = asked.prepare, []

    def signalled(batch):
        calls.append(batch)
        if len(calls) == after - 1:
            signal.raise_signal(signal.SIGTERM)
        return prepare(batch)

    asked.prepare = signalled
    return run(folder, config, asked=asked, evaluate=None)


def test_a_part_is_as_it_was_until_its_turn_and_has_no_moments(tmp_path):
    start = dict(tiny().state_dict())
    run(tmp_path, KEPT)
    for step in range(1, 13):
        weights, moments = saved(tmp_path, step), saved(tmp_path, step, "optimizer")
        begun = {name for name, turn in TURN.items() if step > turn * EVERY}
        assert {name.partition("/")[0] for name in moments} == begun
        assert {name for name in weights if not torch.equal(weights[name], start[name])} == begun
        counts = {name: float(moments[f"{name}/step"]) for name in begun}
        assert counts == {name: step - TURN[name] * EVERY for name in begun}  # so is Adam's correction of its own


def test_freezing_is_what_no_gradient_would_be(tmp_path):
    """The norm by which gradients are clipped is that of what learns."""
    optimizer = replace(OPTIMIZER, clip=0.1)
    run(tmp_path / "unfrozen", replace(KEPT, steps=12, report_every=1, optimizer=optimizer))
    asked = tiny()
    asked.model.embed.requires_grad_(False)
    asked.model.inner.requires_grad_(False)
    alone = replace(optimizer, unfreeze=0, discriminative=1.0)
    run(tmp_path / "alone", replace(KEPT, report_every=1, optimizer=alone), asked=asked)
    for step in (1, EVERY):
        assert_equal(saved(tmp_path / "unfrozen", step), saved(tmp_path / "alone", step))
    norms = [
        [record["norm"] for record in records(tmp_path / name) if "norm" in record] for name in ("unfrozen", "alone")
    ]
    assert norms[0][:EVERY] == norms[1][:EVERY] and norms[0][EVERY] > norms[1][EVERY]


@pytest.mark.parametrize("after", [2, EVERY, EVERY + 1, 2 * EVERY, 2 * EVERY + 1])
def test_a_run_stopped_between_two_turns_goes_on_as_if_it_had_not_been(tmp_path, after):
    assert interrupt(tmp_path / "stopped", KEPT, after).step == after
    resumed, whole = (run(tmp_path / name, KEPT, evaluate=None) for name in ("stopped", "whole"))
    assert_equal(resumed.weights, whole.weights)
    for step in range(after, 13):
        for name in ("model", "optimizer"):
            assert_equal(saved(tmp_path / "stopped", step, name), saved(tmp_path / "whole", step, name))


class Failing(CountingRows):
    def at(self, position):
        if position == 7:
            raise OSError("the disk is gone")
        return super().at(position)


def test_a_run_that_was_cut_off_goes_on_from_its_last_checkpoint(tmp_path):
    """Saved while one part was frozen, cut off after another began."""
    config = replace(KEPT, save_every=3)
    with pytest.raises(OSError, match="the disk is gone"):
        run(tmp_path / "cut", config, Failing())
    for name in ("cut", "whole"):
        run(tmp_path / name, config)
    assert sorted(path.name for path in (tmp_path / "cut" / "checkpoints").iterdir())[0] == "step-00000003"
    for name in ("model", "optimizer"):
        assert_equal(saved(tmp_path / "cut", 12, name), saved(tmp_path / "whole", 12, name))


def test_the_first_steps_are_as_long_as_the_rates_of_the_parts(tmp_path):
    """Adam's first step is the rate, whatever the gradient."""
    start, rate = dict(tiny().state_dict()), 0.02
    optimizer = replace(
        CONFIG.optimizer, rate=rate, warmup=0, schedule="constant", discriminative=2.6, weight_decay=0.0, clip=0.0
    )
    run(tmp_path, replace(CONFIG, steps=1, optimizer=optimizer))
    for name, tensor in saved(tmp_path, 1).items():
        assert float((tensor - start[name]).abs().max()) == pytest.approx(rate * 2.6 ** -TURN[name], rel=1e-3)


def test_compiled_code_unfreezes_too(tmp_path):
    plain = run(tmp_path / "plain", KEPT, asked=tiny(0.0, 0.2))
    asked = tiny(0.0, 0.2)
    asked.compile(backend="aot_eager", dynamic=True)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):  # one graph serves every turn
        compiled = run(tmp_path / "compiled", KEPT, asked=asked, evaluate=None)
    assert_near(saved(tmp_path / "plain", 12), saved(tmp_path / "compiled", 12), 1e-5)
    assert plain.step == compiled.step == 12


def test_two_half_batches_are_one_while_parts_are_frozen(tmp_path):
    one = run(tmp_path / "one", KEPT, CountingRows(5), tiny(0.0, 0.0))
    two = run(tmp_path / "two", replace(KEPT, accumulate=2), CountingRows(5, share=2), tiny(0.0, 0.0))
    assert_near(one.weights, two.weights, 1e-5)


def test_more_steps_may_change_when_parts_begin(tmp_path):
    run(tmp_path, replace(KEPT, steps=9))
    assert run(tmp_path, replace(KEPT, steps=12, optimizer=replace(OPTIMIZER, unfreeze=5))).step == 12


def test_a_part_that_would_never_learn_is_refused(tmp_path):
    with pytest.raises(
        UsageProblem, match="every 6 steps the lowest of 3 would learn from step 13 on, and the last is 12"
    ):
        run(tmp_path, replace(KEPT, optimizer=replace(OPTIMIZER, unfreeze=6)))
