"""Long rows on a GPU: a window by the kernel's band, hashing in half precision, memory that does not grow with depth,
and a million tokens in one row."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.route import Meeting
from regard.attention.route_hashed import Hashed, Local
from regard.attention.route_low_rank import LowRank
from regard.attention.route_sorted import Reach
from regard.attention.route_window import Window, chosen
from regard.models.heads import new_encoder
from regard.models.reformer import PRESETS, reformer
from regard.objectives.pieces import answered_in_pieces
from regard.rows import Rows, Tokens

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

WIDTH, HEADS = 64, 2
ROUTES = {
    "window": lambda: Window(16, WIDTH, HEADS, WIDTH // HEADS),
    "low rank": lambda: LowRank(300, 20, 1),
    "local": lambda: Local(Reach(16, 1, 1)),
    "hashed": lambda: Hashed(Reach(16), 2, (16,), seed=1),
}


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-3), (torch.bfloat16, 6e-2)])
@pytest.mark.parametrize("some", [False, True], ids=["none chosen", "some chosen"])
@pytest.mark.parametrize("name", ROUTES)
def test_what_is_told_is_the_values_by_their_weights(name, some, dtype, tolerance):
    torch.manual_seed(0)
    rows = Rows.of([200, 3, 0, 77], "cuda")
    made = Attention(WIDTH, AttentionConfig(HEADS)).to("cuda", dtype).eval()
    made.route = ROUTES[name]().to("cuda", dtype).eval()
    made.k = made.q if name == "hashed" else made.k
    x = torch.randn(rows.total, WIDTH, device="cuda", dtype=dtype, requires_grad=True)
    mask = chosen(rows.at % 50 == 0, rows) if some and name == "window" else None
    memory = made.remember(x, rows)
    q, _ = made.placed(x, memory, rows, mask, 0, None)
    met = Meeting(q, memory, rows, made.score, mask)
    out, wanted = made.route(met), made.route.mixed(made.route.weights(met), memory, rows, mask)
    torch.testing.assert_close(out.float(), wanted.float(), atol=tolerance, rtol=tolerance)
    (found,) = torch.autograd.grad(out.float().square().sum(), x)
    assert found.isfinite().all()


def step(config, length: int) -> tuple[float, float]:
    """The loss of a step, and the largest memory, in GB."""
    torch.manual_seed(0)
    model = new_encoder("reformer", config, {"write"}).model.cuda().train()
    ids = torch.randint(256, (length + 1,), device="cuda")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", torch.bfloat16):
        states = model(Tokens(ids[:-1], Rows.of([length], "cuda")))
        result = answered_in_pieces(model.logits, states, ids[1:], config.embedding.vocab)
    del states
    (result.loss / result.count).backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    return float(result.loss.detach() / result.count), torch.cuda.max_memory_allocated() / 1e9


def test_memory_does_not_grow_with_depth():
    def deep(layers: int):
        return replace(reformer(layers, 256, 4, 1024, axes=(256, 256), dropout=0.0), rounds=2)

    shallow, deeper = (step(deep(layers), 2**16)[1] for layers in (2, 12))
    assert deeper < 1.35 * shallow  # weights and their gradients, and buckets, a few bytes a token


def test_a_million_tokens_in_one_row_within_16_gb():
    loss, memory = step(PRESETS["reformer-million"], 2**20)
    assert 5 < loss < 7
    assert memory < 16
