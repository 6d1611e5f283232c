"""Training steps on a GPU: nobody waits for it, what is not finite is left out, and compiled code learns the same."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import attend as attending
from regard.attention.attend import attend, by_definition, by_flash
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL
from regard.attention.memory import Memory
from regard.attention.score import ScaledDot
from regard.models.bert import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.objectives.by_table import by_table
from regard.objectives.cross_entropy import by_torch, cross_entropy, fused_losses
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, Batch, Result
from regard.rows import Rows, Tokens
from regard.training.compiled import compiled
from regard.training.parallel import Ranks
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import Stepper

DEVICE, VOCAB = "cuda", 200
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Texts:
    """Rows of other lengths at every position."""

    def at(self, position: int) -> Batch:
        draw = torch.Generator().manual_seed(position)
        rows = Rows.of(torch.randint(2, 60, (12,), generator=draw))
        ids = torch.randint(5, VOCAB, (rows.total + 1,), generator=draw)
        return {"tokens": Tokens(ids[:-1], rows), "types": torch.zeros_like(ids[:-1]), "wanted": ids[1:].clone()}

    def epoch_of(self, position: int) -> tuple[int, int]:
        return 0, position


def masked() -> Asked:
    torch.manual_seed(0)
    model = new_encoder("bert", bert(3, 128, 2, VOCAB, dropout=0.0), {"masked"}).model
    return Asked(model, Masked(Hiding(4, VOCAB, (0, 1, 2, 3)))).to(DEVICE).train()


def following() -> Asked:
    torch.manual_seed(0)
    model = new_encoder("gpt2", gpt2(3, 128, 2, VOCAB, dropout=0.0), {"write"}).model
    return Asked(model, Next()).to(DEVICE).train()


MADE = {"masked": masked, "next": following}


def stepper(asked: Asked) -> Stepper:
    optimizer = OptimizerConfig(1e-3, "constant", warmup=0)
    return Stepper(asked, Texts(), TrainingConfig(precision="bf16", optimizer=optimizer), Ranks())


def learned(asked: Asked, steps: int = 6) -> list[float]:
    """The loss of every step."""
    training = stepper(asked)
    with closing(training.micro_batches(0)) as stream:
        taken = [training.take(step, stream, stop=False) for step in range(steps)]
    return [one.sums["loss"] / one.sums["count"] for one in map(training.measured, taken)]


@contextmanager
def nobody_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("made", MADE)
def test_nobody_waits_for_the_device_within_a_step(made):
    training = stepper(MADE[made]())
    with closing(training.micro_batches(0)) as stream:
        training.take(0, stream, stop=False)  # libraries make themselves ready
        with nobody_waits():
            taken = [training.take(step, stream, stop=False) for step in (1, 2, 3)]
    assert all(math.isfinite(training.measured(one).norm) for one in taken)


@pytest.mark.parametrize("made", MADE)
def test_it_learns_what_a_batch_says(made):
    asked = MADE[made]()
    asked.prepare = lambda batch: type(asked).prepare(asked, Texts().at(0))  # one batch, over and over
    losses = learned(asked, 40)
    assert losses[-1] < 0.8 * losses[0]


class Poisoned(Next):
    def judge(self, model, batch: Batch) -> Result:
        result = super().judge(model, batch)
        return Result(result.loss * (math.nan if batch.get("bad") else 1.0), result.count, result.parts)


def test_a_step_that_is_not_finite_and_all_after_it_leave_the_weights_alone():
    asked = Asked(following().model, Poisoned()).train()
    training = stepper(asked)
    batches = ((position, Texts().at(position) | {"bad": position == 2}) for position in range(5))
    weights = []
    for step in range(5):
        training.take(step, batches, stop=False)
        weights.append([parameter.detach().clone() for parameter in asked.parameters()])
    assert not same(weights[0], weights[1])
    assert same(weights[1], weights[2]) and same(weights[1], weights[4])


def same(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def check_compiled(plain: Asked) -> None:
    """It learns the same compiled, in few graphs."""
    other = copy.deepcopy(plain)
    wanted = learned(plain)
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    with compiled(other):
        found = learned(other)
    assert found == pytest.approx(wanted, rel=2e-2)
    assert not torch._dynamo.utils.counters["graph_break"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 4  # blocks, and the loss for one shape and for any


@pytest.mark.parametrize("made", MADE)
def test_compiled_steps_are_the_same_in_few_graphs_that_never_break(made):
    check_compiled(MADE[made]())


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_in_half_precision(smoothing, fused):
    torch.manual_seed(0)
    logits = (4 * torch.randn(3000, 5003, device=DEVICE)).bfloat16().requires_grad_()
    wanted = torch.randint(5003, (3000,), device=DEVICE)
    exact = logits.detach().double().requires_grad_()
    exact_loss, exact_right = by_torch(exact, wanted, smoothing)
    exact_loss.backward()
    torch.compiler.reset()
    if fused:
        with fused_losses():
            loss, right = cross_entropy(logits, wanted, smoothing)
    else:
        loss, right = cross_entropy(logits, wanted, smoothing)
    loss.backward()
    assert loss.item() == pytest.approx(exact_loss.item(), rel=1e-5) and right == exact_right
    assert (logits.grad.double() - exact.grad).norm() < 4e-3 * exact.grad.norm()


def test_cross_entropy_takes_little_memory():
    """The logits' gradient, and for a moment a portion of them in float32."""
    logits = torch.randn(16384, 32768, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)  # 1 GB
    wanted = torch.randint(32768, (16384,), device=DEVICE)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    cross_entropy(logits, wanted)[0].backward()
    assert torch.cuda.max_memory_allocated() - before < 1.6 * logits.numel() * 2


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [5003, 5056], ids=["odd", "even"])
def test_words_of_a_table(words, smoothing, fused):
    """Portions of them, filled up to an even number, give what the scores of all would."""
    torch.manual_seed(0)
    shapes = (9000, 128), (words, 128), (words,)
    states, table, bias = (torch.randn(*shape, device=DEVICE, requires_grad=True) for shape in shapes)
    wanted = torch.randint(words, (9000,), device=DEVICE)
    rounded = [one.detach().bfloat16().double().requires_grad_() for one in (states, table, bias)]
    exact_loss, _ = by_torch(F.linear(*rounded), wanted, smoothing)
    exact = torch.autograd.grad(exact_loss, rounded)
    torch.compiler.reset()
    with fused_losses() if fused else nullcontext(), torch.autocast(DEVICE, torch.bfloat16):
        loss, right = by_table(states, table, bias, wanted, smoothing)
        scores = F.linear(states, table, bias)
        torchs_loss, _ = by_torch(scores, wanted, smoothing)
    found, torchs = (torch.autograd.grad(one, (states, table, bias)) for one in (loss, torchs_loss))
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(exact_loss.item(), rel=1e-4)
    assert right.item() == pytest.approx((scores.argmax(-1) == wanted).sum().item(), abs=3)  # by kernels that round
    for one, other, precise in zip(found, torchs, exact, strict=True):  # scores in half precision cost something
        assert one.dtype == torch.float32
        assert (one - precise).norm() < 1.1 * (other - precise).norm() < 0.03 * precise.norm()


def test_words_of_a_table_take_little_memory():
    """Of 2.1 GB of scores, a fourth is there at once."""
    states = torch.randn(32768, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    table = torch.randn(32768, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    wanted = torch.randint(32768, (32768,), device=DEVICE)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.compiler.reset()
    with fused_losses():
        by_table(states, table, None, wanted)[0].backward()
    assert torch.cuda.max_memory_allocated() - before < 1.3e9


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "side by side"])
@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["all", "causal"])
def test_even_rows_by_the_kernel_for_rectangles(mask, apart, monkeypatch):
    """What it gives, and its gradients, are those of the ragged kernel and of the definition."""
    torch.manual_seed(0)
    rows, score = Rows.even(9, 200, DEVICE), ScaledDot(64)
    given = torch.randn(rows.total, 3, 4, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    change = torch.randn(rows.total, 4, 64, device=DEVICE, dtype=torch.bfloat16)

    def looked(look, precision=torch.bfloat16):
        q, k, v = (part.contiguous() if apart else part for part in given.to(precision).unbind(1))
        out = look(q, Memory(k, v, rows))
        return out.double(), *(one.double() for one in torch.autograd.grad(out, given, change.to(precision)))

    taken = []
    plain = attending.by_rectangle
    monkeypatch.setattr(attending, "by_rectangle", lambda *asked: taken.append(1) or plain(*asked))
    exact = looked(lambda q, m: by_definition(q, m, rows, score, mask, None, 0.0), torch.float32)
    for found in (
        looked(lambda q, m: attend(q, m, rows, score=score, mask=mask)),
        looked(lambda q, m: by_flash(q, m, rows, score, mask)),
    ):
        for one, other in zip(found, exact, strict=True):
            assert (one - other).norm() < 1e-2 * other.norm()
    assert taken == [1]


def test_queries_keys_and_values_by_one_product():
    torch.manual_seed(0)
    attention, rows = Attention(128, AttentionConfig(heads=2)).to(DEVICE), Rows.of([30, 7, 61], DEVICE)
    x = torch.randn(rows.total, 128, device=DEVICE, requires_grad=True)
    found = []
    for q, memory in (attention.itself(x, rows), (None, attention.remember(x, rows))):
        attention.zero_grad()
        out = attention(x, memory, rows, CAUSAL, q=q)
        found.append([out, *torch.autograd.grad(out.square().sum(), [x, *attention.parameters()])])
    assert attention.itself(x, rows)[0] is not None
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("made", MADE)
def test_compiled_steps_of_even_rows(made, monkeypatch):
    """Rows that are equally long go by their own kernel there too, in as few graphs."""
    monkeypatch.setattr(Texts, "at", even_texts)
    check_compiled(MADE[made]())


def even_texts(texts: Texts, position: int) -> Batch:
    draw = torch.Generator().manual_seed(position)
    ids = torch.randint(5, VOCAB, (8 * 128 + 1,), generator=draw)
    types = torch.zeros_like(ids[:-1])
    return {"tokens": Tokens(ids[:-1], Rows.even(8, 128)), "types": types, "wanted": ids[1:].clone()}
