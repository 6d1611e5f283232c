"""The ragged kernel on a GPU: against the definition in double precision, inside models, watched and compiled."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend, by_definition, by_flash, by_padding, flash_can
from regard.attention.mask import CAUSAL, FULL, band, chosen_keys, window
from regard.attention.memory import Memory
from regard.attention.score import SCORES, make_score
from regard.attention.watch import watch
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.objectives.objective import Asked, to_device
from regard.objectives.translate import Translate
from regard.rows import Rows, Tokens

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE, HEADS = "cuda", 3

BANDS = {
    "none": None,
    "full": FULL,
    "causal": CAUSAL,
    "window": window(7),
    "left": band(5, 0),
    "right": band(0, 6),
    "uneven": band(20, 2),
}
LAYOUTS = {  # lengths of the queries and of what they look at
    "self": ([37, 1, 130, 64], [37, 1, 130, 64]),
    "even": ([32, 32], [32, 32]),
    "after a memory": ([1, 5, 1, 3], [90, 5, 1, 200]),
    "one step": ([1, 1, 1], [65, 1, 12]),
    "one row alone": ([50], [50]),
}


def question(layout, size=64, dtype=torch.bfloat16):
    torch.manual_seed(0)
    rows, memory_rows = (Rows.of(lengths, DEVICE) for lengths in layout)
    q = torch.randn(rows.total, HEADS, size, device=DEVICE, dtype=dtype)
    k, v = (torch.randn(memory_rows.total, HEADS, size, device=DEVICE, dtype=dtype) for _ in range(2))
    return [q, k, v], rows, memory_rows


def value_and_gradients(kernel, inputs: list[Tensor]) -> list[Tensor]:
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = kernel(*inputs)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out.dtype)
    return [out, *torch.autograd.grad((out * weights).sum(), inputs)]


def by_norm(got: Tensor, wanted: Tensor) -> float:
    """How far off, as a share of the whole; where the whole is nothing (the gradient of a query that has one key),
    half precision leaves a little."""
    return ((got.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-3)).item()


def flash_and_definition(layout, mask, size=64):
    inputs, rows, memory_rows = question(layout, size)
    score = make_score("scaled-dot", size)
    fast = value_and_gradients(lambda q, k, v: by_flash(q, Memory(k, v, memory_rows), rows, score, mask), inputs)
    slow = value_and_gradients(
        lambda q, k, v: by_definition(q, Memory(k, v, memory_rows), rows, score, mask, None, 0.0),
        [x.double() for x in inputs],
    )
    return fast, slow


@pytest.mark.parametrize("mask_name", BANDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_flash_equals_the_definition(layout, mask_name):
    for got, wanted in zip(*flash_and_definition(LAYOUTS[layout], BANDS[mask_name]), strict=True):
        assert got.isfinite().all() and by_norm(got, wanted) < 1e-2


@pytest.mark.parametrize("mask_name", ["full", "causal", "window"])
@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_flash_equals_the_definition_for_every_size_of_head(size, mask_name):
    for got, wanted in zip(*flash_and_definition(LAYOUTS["self"], BANDS[mask_name], size), strict=True):
        assert by_norm(got, wanted) < 1e-2


@pytest.mark.parametrize("layout", [([40, 3, 1], [9, 70, 1]), ([4, 3, 2], [0, 70, 1]), ([0, 5, 2], [3, 5, 0])], ids=str)
@pytest.mark.parametrize("mask_name", ["none", "causal", "window"])
def test_a_query_that_may_see_nothing_gets_nothing(layout, mask_name):
    fast, slow = flash_and_definition(layout, BANDS[mask_name])
    for got, wanted in zip(fast, slow, strict=True):
        assert got.isfinite().all() and by_norm(got, wanted) < 1e-2
    assert not fast[0][slow[0].flatten(1).abs().sum(1) == 0].any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("layout", [*LAYOUTS.values(), ([4, 3, 2], [0, 70, 1])], ids=str)
def test_padding_equals_the_definition(layout, biased, dtype, tolerance):
    inputs, rows, memory_rows = question(layout, dtype=dtype)
    score = make_score("scaled-dot", 64)
    bias = torch.randn(1, HEADS, rows.longest, memory_rows.longest, device=DEVICE, dtype=dtype) if biased else None

    def kernel(compute, bias):
        return lambda q, k, v: compute(q, Memory(k, v, memory_rows), rows, score, CAUSAL, bias, 0.0)

    fast = value_and_gradients(kernel(by_padding, bias), inputs)
    slow = value_and_gradients(kernel(by_definition, bias.double() if biased else None), [x.double() for x in inputs])
    for got, wanted in zip(fast, slow, strict=True):
        assert got.isfinite().all() and by_norm(got, wanted) < tolerance


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
def test_a_bias_that_learns_is_compiled_for_every_length(dtype, tolerance):
    """In compiled code nobody but us sees to how it lies."""
    compiled = torch.compile(by_padding, dynamic=True, fullgraph=True)
    for layout in (([25, 7, 3], [25, 7, 3]), ([25, 25], [25, 25]), ([4, 31], [9, 27]), ([64, 16], [64, 16])):
        inputs, rows, memory_rows = question(layout, dtype=dtype)
        inputs += [torch.randn(1, HEADS, rows.longest, memory_rows.longest, device=DEVICE, dtype=dtype)]
        fast = value_and_gradients(biased(compiled, rows, memory_rows), inputs)
        slow = value_and_gradients(biased(by_definition, rows, memory_rows), [x.double() for x in inputs])
        for got, wanted in zip(fast, slow, strict=True):
            assert got.isfinite().all() and by_norm(got, wanted) < tolerance


def biased(compute, rows: Rows, memory_rows: Rows):
    score = make_score("scaled-dot", 64)
    return lambda q, k, v, bias: compute(q, Memory(k, v, memory_rows), rows, score, None, bias, 0.0)


def test_attend_takes_the_flash_kernel_when_it_can():
    (q, k, v), rows, memory_rows = question(LAYOUTS["self"])
    memory, score = Memory(k, v, memory_rows), make_score("scaled-dot", 64)
    for mask in BANDS.values():
        assert flash_can(q, memory, mask, None, 0.0)
        assert torch.equal(attend(q, memory, rows, score=score, mask=mask), by_flash(q, memory, rows, score, mask))


def test_attend_takes_another_when_flash_cannot():
    (q, k, v), rows, memory_rows = question(LAYOUTS["self"])
    keys = chosen_keys(torch.rand(4, 130, device=DEVICE) < 0.5)
    bias = torch.randn(1, 1, 130, 130, device=DEVICE, dtype=q.dtype)
    memory, score = Memory(k, v, memory_rows), make_score("scaled-dot", 64)
    assert not flash_can(q.float(), Memory(k.float(), v.float(), memory_rows), None, None, 0.0)
    assert not flash_can(q, Memory(k.half(), v.half(), memory_rows), None, None, 0.0)
    assert not flash_can(q[..., :12], Memory(k[..., :12], v[..., :12], memory_rows), None, None, 0.0)
    for asked in ({"mask": keys}, {"mask": CAUSAL | keys}, {"bias": bias}, {"dropout": 0.1}):
        assert not flash_can(q, memory, asked.get("mask"), asked.get("bias"), asked.get("dropout", 0.0))
        assert attend(q, memory, rows, score=score, **asked).isfinite().all()


def batch(count=24, longest=40):
    torch.manual_seed(1)

    def texts():
        return [torch.randint(3, 50, (length,)).tolist() for length in torch.randint(1, longest, (count,)).tolist()]

    sources, targets = texts(), texts()
    asked = {
        "source": Tokens.of(sources),
        "target_in": Tokens.of([[1, *row] for row in targets]),
        "target_out": torch.tensor([token for row in targets for token in (*row, 2)]),
    }
    return to_device(asked, DEVICE)


def small_transformer() -> Transformer:
    torch.manual_seed(0)
    return Transformer(transformer(2, 128, 4, 256, vocab=50, dropout=0.0)).to(DEVICE)


def loss_and_gradients(model: nn.Module, one, precision: torch.dtype) -> tuple[float, dict[str, Tensor]]:
    model.zero_grad()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=precision is torch.bfloat16):
        result = Asked(model, Translate())(one)
    (result.loss / result.count).backward()
    return (result.loss / result.count).item(), {n: p.grad.clone() for n, p in model.named_parameters()}


def assert_alike(got: tuple[float, dict[str, Tensor]], wanted: tuple[float, dict[str, Tensor]]) -> None:
    assert abs(got[0] - wanted[0]) < 1e-2 * wanted[0]
    for name, gradient in wanted[1].items():
        if not name.endswith(".k.bias"):  # a bias of all keys alike moves no softmax: its gradient is only noise
            assert F.cosine_similarity(got[1][name].flatten(), gradient.flatten(), 0) > 0.99, name


def test_a_transformer_learns_the_same_in_half_precision():
    model, one = small_transformer(), batch()
    assert_alike(loss_and_gradients(model, one, torch.bfloat16), loss_and_gradients(model, one, torch.float32))


@pytest.mark.parametrize("score", [None, *SCORES])
def test_recurrent_translation_learns_the_same_in_half_precision(score):
    torch.manual_seed(0)
    model, one = Seq2Seq(seq2seq(score, width=64, vocab=50, dropout=0.0)).to(DEVICE), batch()
    loss, gradients = loss_and_gradients(model, one, torch.bfloat16)
    assert abs(loss - loss_and_gradients(model, one, torch.float32)[0]) < 1e-2 * loss
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@torch.no_grad()
def test_stepping_equals_reading_in_half_precision():
    model, one = small_transformer().eval(), batch(6, 12)
    texts = [row[:1] * 8 for row in one["target_in"].tolist()]  # equally long, so that all rows step together
    texts = [[token + place for place, token in enumerate(row)] for row in texts]
    target = Tokens.of(texts, DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        wanted = target.rows.pad(model.logits(model(one["source"], target)))  # (B, 8, V)
        state = model.start(one["source"])
        for place in range(8):
            logits, state = model.step(target.rows.pad(target.ids)[:, place], state)
            assert by_norm(logits, wanted[:, place]) < 3e-2


@torch.no_grad()
def test_watching_leaves_the_fast_kernel_alone():
    model, one = small_transformer().eval(), batch()
    with torch.autocast(DEVICE, torch.bfloat16):
        unseen = model(one["source"], one["target_in"])
        with watch(model) as seen:
            watched = model(one["source"], one["target_in"])
    assert torch.equal(unseen, watched)
    for calls in seen.values():
        for row in calls[0]:
            torch.testing.assert_close(row.float().sum(-1), torch.ones_like(row[..., 0]).float(), rtol=0, atol=2e-2)


def test_a_compiled_transformer_is_one_graph_and_learns_the_same():
    model = small_transformer()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    for count, longest in ((24, 40), (9, 70)):
        one = batch(count, longest)
        wanted = loss_and_gradients(model, one, torch.bfloat16)
        model.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            states = compiled(one["source"], one["target_in"])
            loss = F.cross_entropy(model.logits(states), one["target_out"], label_smoothing=0.1)
        loss.backward()
        assert_alike((loss.item(), {n: p.grad for n, p in model.named_parameters()}), wanted)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
