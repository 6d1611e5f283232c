"""Rows laid out before they are needed, on a GPU: the same rows, the same steps, and nobody waits for a copy."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch

from regard.layers.recurrent import LaidOut
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.objectives.objective import Asked, to_device
from regard.objectives.translate import Translate
from regard.rows import Rows, Tokens
from regard.training.parallel import Ranks
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import Stepper

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
VOCAB, STEPS = 200, 4


class Sentences:
    """Pairs of other lengths at every position."""

    def at(self, position):
        chance = torch.Generator().manual_seed(position)

        def side():
            sizes = torch.randint(1, 20, (16,), generator=chance)
            return Tokens(torch.randint(3, VOCAB, (int(sizes.sum()),), generator=chance), Rows.of(sizes))

        source, target = side(), side()
        return {"source": source, "target_in": target, "target_out": target.ids.flip(0)}

    def epoch_of(self, position):
        return 0, position


def stepper(precision):
    torch.manual_seed(0)
    asked = Asked(Seq2Seq(seq2seq("dot", width=64, vocab=VOCAB)), Translate()).to("cuda").train()
    config = TrainingConfig(precision=precision, optimizer=OptimizerConfig(1e-3, "constant", warmup=0))
    return Stepper(asked, Sentences(), config, Ranks())


def losses(precision):
    made = stepper(precision)
    with closing(made.micro_batches(0)) as stream:
        taken = [made.take(step, stream, stop=False) for step in range(STEPS)]
    return [made.measured(one).sums["loss"] for one in taken]


@pytest.mark.parametrize("lengths", [[3, 1, 5, 2], [2, 0, 3], [4, 4]], ids=str)
def test_rows_are_the_same_there(lengths):
    rows = Rows.of(lengths)
    there, plain = LaidOut.of_rows(rows).pin_memory().to("cuda"), rows.to("cuda")
    for name in ("offsets", "lengths", "at", "slots", "row", "real"):
        one, other = getattr(there, name), getattr(plain, name)
        assert one.is_cuda and torch.equal(one, other) and one.dtype == other.dtype, name
    assert not there.sizes.is_cuda and not there.packing.sizes.is_cuda and there.packing.order.is_cuda
    again = there.to("cpu")
    assert torch.equal(again.packing.back, LaidOut.of_rows(rows).packing.back)


def test_a_batch_is_pinned_and_laid_out_when_it_comes():
    made = stepper("float32")
    with closing(made.micro_batches(0)) as stream:
        _, batch = next(stream)
    assert batch["target_out"].is_pinned() and batch["source"].ids.is_pinned()
    assert isinstance(batch["source"].rows, LaidOut) and batch["source"].rows.numbers.is_pinned()
    moved = to_device(batch, made.device)
    assert moved["source"].rows.packing.order.is_cuda


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_steps_are_the_same_without(precision, monkeypatch):
    laid = losses(precision)
    monkeypatch.delattr(Seq2Seq, "laid_out")
    assert losses(precision) == pytest.approx(laid, rel=1e-4 if precision == "float32" else 1e-2)


def test_what_is_drawn_is_what_a_seed_for_all_devices_draws():
    made = stepper("float32")
    drawn = []
    for seeded in (made.draw_from, torch.manual_seed):
        seeded(7)
        drawn.append((torch.rand(5), torch.rand(5, device=made.device).cpu()))
    assert all(map(torch.equal, *drawn))
