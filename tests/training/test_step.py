"""What one step does: exact over micro-batches, blind to threads, and never with a number that is not one."""

import json
import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_run import CONFIG, CountingRows, Next, TinyModel, assert_equal, assert_near, records, run, saved, tiny
from torch import nn

from regard.errors import Problem, UsageProblem
from regard.layers.recurrent import LaidOut
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.objectives.objective import Asked
from regard.objectives.translate import Translate
from regard.training.ahead import DEPTH, ahead
from regard.training.compiled import repeated
from regard.training.settings import OptimizerConfig

GOLDEN = Path(__file__).with_name("golden.json")


def test_the_golden_run(tmp_path):
    """A refactor must reproduce the curve; the tolerance is for other processors' order of summation alone."""
    run(tmp_path, replace(CONFIG, report_every=1))
    golden = json.loads(GOLDEN.read_text())
    told = records(tmp_path)
    assert [record["step"] for record in told] == [record["step"] for record in golden]
    for record, expected in zip(told, golden, strict=True):
        for name, value in expected.items():
            assert record[name] == pytest.approx(value, rel=2e-6), (record["step"], name)


def test_two_half_batches_are_one(tmp_path):
    """Halves of unequal size: only a mean over all targets makes them equal."""
    one = run(tmp_path / "one", CONFIG, CountingRows(5), tiny(0.0, 0.0))
    two = run(tmp_path / "two", replace(CONFIG, accumulate=2), CountingRows(5, share=2), tiny(0.0, 0.0))
    assert_near(one.weights, two.weights, 1e-5)
    for a, b in zip(records(tmp_path / "one"), records(tmp_path / "two"), strict=True):
        assert a["step"] == b["step"]
        assert ("loss" in a) == ("loss" in b)
        if "loss" in a:
            assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
            assert a["norm"] == pytest.approx(b["norm"], rel=1e-4)
            assert a["tokens"] == b["tokens"]


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path):
    weights = [run(tmp_path / str(i), replace(CONFIG, seed=seed)).weights for i, seed in enumerate([1, 1, 2])]
    assert_equal(weights[0], weights[1])
    assert not torch.equal(weights[0]["model.embed.weight"], weights[2]["model.embed.weight"])


def test_evaluating_leaves_the_run_as_it_is(tmp_path):
    """Random draws and the module's mode included."""
    asked = tiny()

    def evaluate():
        assert not asked.training and not torch.is_grad_enabled()
        torch.rand(17)
        return {"loss": 1.0}

    often = run(tmp_path / "often", replace(CONFIG, evaluate_every=1, average=2), asked=asked, evaluate=evaluate)
    never = run(tmp_path / "never", replace(CONFIG, average=2), evaluate=None)
    assert_equal(saved(tmp_path / "often", 12), saved(tmp_path / "never", 12))
    assert (often.chosen, never.chosen) == ("best", "average")


def test_bf16_learns_too(tmp_path):
    full = run(tmp_path / "full")
    half = run(tmp_path / "half", replace(CONFIG, precision="bf16"))
    assert half.weights["model.embed.weight"].dtype == torch.float32
    assert half.best == pytest.approx(full.best, rel=0.05)
    assert half.best != full.best


def test_clipping_bounds_the_gradient_and_zero_leaves_it(tmp_path):
    """AdamW hardly sees the length of a gradient; its second moments do."""

    def moment(clip):
        folder = tmp_path / str(clip)
        run(folder, replace(CONFIG, steps=1, optimizer=OptimizerConfig(rate=0.02, warmup=0, clip=clip)))
        squares = [tensor for name, tensor in saved(folder, 1, "optimizer").items() if name.endswith("exp_avg_sq")]
        return sum(float(tensor.sum()) for tensor in squares), records(folder)[0]["norm"]

    for clip in (0.5, 0.0, 1000.0):
        squares, norm = moment(clip)
        assert norm > 0.5
        assert squares == pytest.approx(0.02 * min(norm, clip or norm) ** 2, rel=1e-4)


class Poisoned(Next):
    """Gives a number that is not one when it meets a batch of five rows."""

    def judge(self, model, batch):
        result = super().judge(model, batch)
        return replace(result, loss=result.loss * (math.nan if len(batch["tokens"]) == 5 else 1))


class PoisonedRows(CountingRows):
    def at(self, position):
        return CountingRows(5 if position == 7 else 6).at(position)


def test_nan_stops_before_the_step_and_is_named(tmp_path):
    torch.manual_seed(7)
    asked = Asked(TinyModel(0.3), Poisoned(0.2))
    message = r"Step 8 \(micro-batches 7 to 7\): the loss is nan.*is that of model\.embed\.weight.*not taken.*rate"
    with pytest.raises(Problem, match=message):
        run(tmp_path, batches=PoisonedRows(), asked=asked)
    good = run(tmp_path / "good", replace(CONFIG, steps=7, average=0), evaluate=None)
    assert_equal(dict(asked.state_dict()), good.weights)
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())][-1] == "step-00000006"


class Endless(Next):
    """Its loss has no end, its gradients are as ever."""

    def judge(self, model, batch):
        result = super().judge(model, batch)
        return replace(result, loss=result.loss + math.inf)


def test_a_loss_without_end_stops_it_though_gradients_are_finite(tmp_path):
    asked = Asked(TinyModel(0.0), Endless(0.0))
    before = {name: tensor.clone() for name, tensor in asked.state_dict().items()}
    with pytest.raises(Problem, match=r"Step 1 .*the loss is inf.*is that of no parameter"):
        run(tmp_path, asked=asked)
    assert_equal(dict(asked.state_dict()), before)


class Large(Next):
    def judge(self, model, batch):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_out_of_memory_is_said_with_numbers_and_a_remedy(tmp_path):
    asked = Asked(TinyModel(0.0), Large(0.0))
    with pytest.raises(Problem, match=r"Micro-batch 0 \(\d+ tokens\).*2\.00 GiB.*accumulate=2 \(now 1\)"):
        run(tmp_path, asked=asked)


class Nothing(Next):
    def judge(self, model, batch):
        result = super().judge(model, batch)
        return replace(result, loss=result.loss * 0, count=result.count * 0)


def test_a_batch_without_targets_changes_nothing(tmp_path):
    asked = Asked(TinyModel(0.0), Nothing(0.0))
    optimizer = replace(CONFIG.optimizer, weight_decay=0.0)
    before = {name: tensor.clone() for name, tensor in asked.state_dict().items()}
    run(tmp_path, replace(CONFIG, optimizer=optimizer), asked=asked, evaluate=None)
    assert_equal(dict(asked.state_dict()), before)
    assert all(record["loss"] == 0 for record in records(tmp_path))


def test_a_fault_in_the_data_comes_out_as_it_is(tmp_path):
    class Faulty(CountingRows):
        def at(self, position):
            if position == 3:
                raise Problem("line 4 of train.de is empty")
            return super().at(position)

    with pytest.raises(Problem, match=r"line 4 of train\.de"):
        run(tmp_path, batches=Faulty())


def test_batches_come_in_order_and_only_a_little_ahead():
    fetched = []

    class Watched(CountingRows):
        def at(self, position):
            fetched.append(position)
            return {"position": position}

    stream = ahead(Watched(), range(0, 60, 3))
    for index, (position, batch) in enumerate(stream):
        assert position == batch["position"] == 3 * index
        assert len(fetched) <= index + 1 + DEPTH
    assert fetched == list(range(0, 60, 3))


def test_batches_are_made_ready_by_the_thread_that_fetches_them():
    def ready(batch):
        return batch | {"by": threading.current_thread().name}

    for _, batch in ahead(CountingRows(), range(3), ready):
        assert batch["by"].startswith("batches") and "tokens" in batch


class Copied(CountingRows):
    """Sentences that are their own translations."""

    def at(self, position):
        tokens = super().at(position)["tokens"]
        return {"source": tokens, "target_in": tokens, "target_out": tokens.ids.roll(-1)}


def test_rows_that_are_laid_out_beforehand_are_the_same_rows(tmp_path, monkeypatch):
    def trained(folder):
        torch.manual_seed(0)
        asked = Asked(Seq2Seq(seq2seq("dot", width=8, vocab=12)), Translate())
        return run(folder, batches=Copied(), asked=asked, evaluate=None).weights

    laid, asked_for = trained(tmp_path / "laid"), []
    monkeypatch.setattr(LaidOut, "of_rows", lambda rows, of=LaidOut.of_rows: asked_for.append(rows) or of(rows))
    monkeypatch.delattr(Seq2Seq, "laid_out")
    assert_equal(laid, trained(tmp_path / "not"))
    assert len(asked_for) > 1  # each time that rows were read


def test_patience_needs_something_to_wait_for(tmp_path):
    with pytest.raises(UsageProblem, match="patience=3"):
        run(tmp_path, replace(CONFIG, patience=3), evaluate=None)


def test_the_watched_number_must_be_among_those_evaluated(tmp_path):
    with pytest.raises(UsageProblem, match=r"best='highest bleu'.*loss"):
        run(tmp_path, replace(CONFIG, best="highest bleu"))


def test_blocks_are_compiled_each_by_itself():
    blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    model = nn.ModuleDict({"embed": nn.Embedding(3, 2), "stack": nn.ModuleDict({"blocks": blocks})})
    assert repeated(model) == list(blocks)
    assert repeated(nn.ModuleList([nn.Linear(2, 2)])) == repeated(nn.Linear(2, 2)) == []


def test_compiled_training_is_the_same(tmp_path):
    plain = run(tmp_path / "plain", replace(CONFIG, steps=4), asked=tiny(0.0, 0.2))
    asked = tiny(0.0, 0.2)
    asked.compile(backend="aot_eager", dynamic=True)
    compiled = run(tmp_path / "compiled", replace(CONFIG, steps=4), asked=asked)
    assert_near(plain.weights, compiled.weights, 1e-5)
