"""Every kernel, for every mask, score and bias, equals the formula written out here for one row and one head."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.attend import attend, by_definition, by_padding
from regard.attention.attention import Attention, AttentionConfig
from regard.attention.mask import CAUSAL, FULL, band, chosen_keys, prefix, window
from regard.attention.memory import Memory
from regard.attention.score import SCORES, make_score
from regard.rows import Rows

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

HEADS, SIZE = 2, 4

LAYOUTS = {  # lengths of the queries and of what they look at
    "self": ([4, 1, 3], [4, 1, 3]),
    "even": ([2, 2, 2], [3, 3, 3]),
    "after a memory": ([2, 1, 3], [6, 1, 4]),
    "one step": ([1, 1, 1], [3, 1, 5]),
    "an empty memory": ([3, 2, 1], [0, 5, 1]),
    "only empty memories": ([2, 1], [0, 0]),
    "a row without queries": ([0, 3, 1], [2, 4, 0]),
    "one row alone": ([3], [5]),
}

PREFIXES = [2, 0, 3]
CHOSEN = torch.tensor([[1, 0, 1, 0, 0, 1], [0] * 6, [0, 1, 1, 0, 1, 0]], dtype=torch.bool)  # the second: nothing


def in_prefix(row, query, key):
    return key <= query or key < PREFIXES[row]


def is_chosen(row, query, key):
    return bool(CHOSEN[row, key])


PREFIX, KEYS = prefix(torch.tensor(PREFIXES)), chosen_keys(CHOSEN)

MASKS = {  # the mask, and who may look at whom in plain words
    "none": (None, lambda row, query, key: True),
    "full": (FULL, lambda row, query, key: True),
    "causal": (CAUSAL, lambda row, query, key: key <= query),
    "window": (window(1), lambda row, query, key: abs(query - key) <= 1),
    "left": (band(2, 0), lambda row, query, key: query - 2 <= key <= query),
    "right": (band(0, 2), lambda row, query, key: query <= key <= query + 2),
    "nothing": (band(-1, 0) & band(0, -1), lambda row, query, key: False),
    "prefix": (PREFIX, in_prefix),
    "chosen": (KEYS, is_chosen),
    "full & causal": (FULL & CAUSAL, lambda row, query, key: key <= query),
    "window & causal": (window(2) & CAUSAL, lambda row, query, key: query - 2 <= key <= query),
    "window | chosen": (window(1) | KEYS, lambda row, query, key: abs(query - key) <= 1 or is_chosen(row, query, key)),
    "causal & chosen": (CAUSAL & KEYS, lambda row, query, key: key <= query and is_chosen(row, query, key)),
    "window | causal": (window(1) | CAUSAL, lambda row, query, key: key <= query + 1),
    "prefix & window": (
        PREFIX & window(1),
        lambda row, query, key: in_prefix(row, query, key) and abs(query - key) <= 1,
    ),
}


def formula(name: str, score, q: Tensor, k: Tensor) -> Tensor:  # (Q, D), (K, D) -> (Q, K)
    """The score of every query with every key, as the papers write it."""
    if name == "cosine":
        lengths = q.norm(dim=1)[:, None] * k.norm(dim=1)
        return score.strength * (q @ k.T) / lengths
    if name == "additive":
        w, u, v = score.query.weight, score.key.weight, score.energy.weight[0]
        pairs = [[torch.tanh(w @ s + u @ h) @ v for h in k] for s in q]
        return torch.stack([torch.stack(row) if row else q.new_zeros(0) for row in pairs]) if pairs else q @ k.T
    if name == "location":
        return (q @ score.weight.weight.T)[:, : len(k)]
    if name == "general":
        return q @ score.weight.weight.T @ k.T
    return q @ k.T / (SIZE**0.5 if name == "scaled-dot" else 1.0)


def one_row_at_a_time(name, score, q, k, v, rows, memory_rows, permitted, bias) -> Tensor:  # (N, H, D)
    parts = []
    for b, (s, h, u) in enumerate(zip(rows.split(q), memory_rows.split(k), memory_rows.split(v), strict=True)):
        first = len(h) - len(s)  # queries are the last places of their memory
        allowed = [[permitted(b, first + i, j) for j in range(len(h))] for i in range(len(s))]
        closed = ~torch.tensor(allowed, dtype=torch.bool).view(len(s), len(h))
        heads = []
        for n in range(HEADS):
            logits = formula(name, score, s[:, n], h[:, n])
            if bias is not None:
                logits = logits + bias[b % len(bias), n, : len(s), : len(h)]
            powers = logits.exp().masked_fill(closed, 0.0)
            heads.append(powers / powers.sum(1, keepdim=True).clamp(min=1e-300) @ u[:, n])
        parts.append(torch.stack(heads, 1))
    return torch.cat(parts)


def question(layout: str, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    rows, memory_rows = map(Rows.of, LAYOUTS[layout])
    q = torch.randn(rows.total, HEADS, SIZE, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(memory_rows.total, HEADS, SIZE, dtype=dtype, requires_grad=True) for _ in range(2))
    return q, k, v, rows, memory_rows


def biases(rows: Rows, memory_rows: Rows):
    grid = HEADS, rows.longest, memory_rows.longest
    yield None
    for count in (1, len(rows)):
        yield torch.randn(count, *grid, dtype=torch.float64, requires_grad=True)


def value_and_gradients(compute, inputs: list[Tensor]) -> list[Tensor]:
    out = compute()
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    gradients = torch.autograd.grad((out * weights).sum(), inputs, allow_unused=True)
    return [out, *(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, gradients, strict=True))]


def kernels_for(score):
    yield lambda q, m, r, mask, bias: by_definition(q, m, r, score, mask, bias, 0.0)
    yield lambda q, m, r, mask, bias: attend(q, m, r, score=score, mask=mask, bias=bias)
    if score.fused:
        yield lambda q, m, r, mask, bias: by_padding(q, m, r, score, mask, bias, 0.0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("score_name", SCORES)
def test_every_kernel_equals_the_formula(score_name, mask_name, layout):
    q, k, v, rows, memory_rows = question(layout)
    score = make_score(score_name, SIZE).double()
    mask, permitted = MASKS[mask_name]
    for bias in biases(rows, memory_rows):
        inputs = [q, k, v, *score.parameters(), *([] if bias is None else [bias])]
        wanted = value_and_gradients(
            lambda bias=bias: one_row_at_a_time(score_name, score, q, k, v, rows, memory_rows, permitted, bias), inputs
        )
        for kernel in kernels_for(score):

            def compute(kernel=kernel, bias=bias):
                memory = Memory(score.keys(k), v, memory_rows)
                return kernel(score.queries(q), memory, rows, mask, bias)

            for got, right in zip(value_and_gradients(compute, inputs), wanted, strict=True):
                torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-9)  # NaN is never close


@pytest.mark.parametrize("mask_name", ["none", "causal", "chosen"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_padding_equals_the_definition_in_every_precision(dtype, tolerance, layout, mask_name):
    q, k, v, rows, memory_rows = question(layout, dtype)
    score, (mask, _) = make_score("scaled-dot", SIZE), MASKS[mask_name]
    args = Memory(k, v, memory_rows), rows, score, mask, None, 0.0
    fast = value_and_gradients(lambda: by_padding(q, *args), [q, k, v])
    slow = value_and_gradients(lambda: by_definition(q, *args), [q, k, v])
    for got, right in zip(fast, slow, strict=True):
        torch.testing.assert_close(got, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("score_name", SCORES)
def test_dropout_leaves_the_mean_alone(score_name):
    q, k, v, rows, memory_rows = question("after a memory")
    score = make_score(score_name, SIZE).double()
    q, memory = score.queries(q), Memory(score.keys(k), v, memory_rows)
    with torch.no_grad():
        wanted = attend(q, memory, rows, score=score, mask=CAUSAL)
        draws = [attend(q, memory, rows, score=score, mask=CAUSAL, dropout=0.3) for _ in range(1000)]
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(torch.stack(draws).mean(0), wanted, rtol=0, atol=0.15)


@pytest.mark.parametrize("score_name", SCORES)
def test_dropout_is_for_training_only(score_name):
    torch.manual_seed(0)
    attention = Attention(8, AttentionConfig(HEADS, dropout=0.5, score=score_name))
    calm = Attention(8, AttentionConfig(HEADS, score=score_name))
    calm.load_state_dict(attention.state_dict())
    rows = Rows.of([3, 1, 4])
    x = torch.randn(rows.total, 8)

    def answer(module):
        return module(x, module.remember(x, rows), rows, CAUSAL)

    assert torch.equal(answer(attention.eval()), answer(calm.eval()))
    assert torch.equal(answer(calm.train()), answer(calm.eval()))
    assert not torch.allclose(answer(attention.train()), answer(calm))


@pytest.mark.parametrize("score_name", SCORES)
def test_a_row_alone_equals_the_same_row_in_a_batch(score_name):
    q, k, v, rows, memory_rows = question("after a memory")
    score = make_score(score_name, SIZE).double()
    q, k = score.queries(q), score.keys(k)
    together = rows.split(attend(q, Memory(k, v, memory_rows), rows, score=score, mask=window(2)))
    for row, (s, h, u) in enumerate(zip(rows.split(q), memory_rows.split(k), memory_rows.split(v), strict=True)):
        alone = attend(s, Memory(h, u, Rows.of([len(h)])), Rows.of([len(s)]), score=score, mask=window(2))
        torch.testing.assert_close(together[row], alone)
