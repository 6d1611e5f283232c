"""The kernels of a step of writing are what they stand for: attention by definition, the best of a softmax, a sum and
its norm.

They run on a GPU; or anywhere with Triton's interpreter, slowly: TRITON_INTERPRET=1.
"""

from __future__ import annotations

import pytest
import torch

from regard.attention.fixed import FixedRoom, FixedRows
from regard.attention.kernels import FOUND, INTERPRETED
from regard.attention.memory import Memory
from regard.attention.one_query import one_query, one_query_can
from regard.decoding import best
from regard.decoding.fused import FusedNorm
from regard.rows import Rows

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU and not INTERPRETED else "cpu"
pytestmark = pytest.mark.skipif(not FOUND or not (ON_GPU or INTERPRETED), reason="needs a CUDA device")

DTYPES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # and how near
LENGTHS = [3, 0, 16, 9] if INTERPRETED else [3, 0, 500, 77]  # of sentences
PLACES = 16 if INTERPRETED else 512
HEADS = 2


def room_of(lengths: list[int], beams: int, size: int, dtype: torch.dtype) -> FixedRoom:
    """One whose rows have these places filled, with numbers everywhere: what is not filled must not be seen."""
    like = torch.empty(1, HEADS, size, dtype=dtype, device=DEVICE)
    rows = FixedRows.empty(len(lengths), beams, PLACES, like)
    rows.filled.copy_(torch.tensor(lengths).repeat_interleave(beams))
    if rows.owner is not None:
        rows.owner.copy_(torch.randint(beams, rows.owner.shape))
    room = FixedRoom.like(Memory(like, like, Rows.of([1])), rows)
    room.keys.normal_()
    room.values.normal_()
    return room


def by_definition(q: torch.Tensor, room: FixedRoom, scale: float, bias: torch.Tensor | None = None) -> torch.Tensor:
    rows, each = room.rows, len(q) // len(room.rows)
    keys, values = (grid.flatten(0, 2)[rows.cells].float() for grid in (room.keys, room.values))  # (B, T, H, D)
    found = torch.zeros(q.shape, device=DEVICE)
    for number, query in enumerate(q.float()):
        row = number // each
        filled = int(rows.filled[row])
        logits = torch.einsum("hd,thd->ht", query, keys[row, :filled]) * scale
        if bias is not None:
            logits = logits + bias[min(number, len(bias) - 1), :, 0, :filled].float()
        found[number] = torch.einsum("ht,thd->hd", logits.softmax(-1), values[row, :filled])
    return found


def near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    tolerance = DTYPES[found.dtype]
    torch.testing.assert_close(found.float(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [64, 24])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("each", [1, 3], ids=["one each", "three share a row"])
def test_queries_look_at_what_is_filled(each, dtype, size):
    torch.manual_seed(0)
    room = room_of(LENGTHS, 1, size, dtype)
    assert one_query_can(room.keys)
    q = torch.randn(len(LENGTHS) * each, HEADS, size, device=DEVICE).to(dtype)
    near(one_query(q, room, 0.3), by_definition(q, room, 0.3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("joined", [True, False], ids=["of one product", "apart"])
def test_what_is_new_is_written_and_seen(joined, beams, dtype):
    torch.manual_seed(0)
    before = [min(length, PLACES - 1) for length in LENGTHS]
    room, wanted = room_of(before, beams, 16, dtype), room_of(before, beams, 16, dtype)
    for mine, other in ((room.keys, wanted.keys), (room.values, wanted.values)):
        other.copy_(mine)
    if room.rows.owner is not None:
        wanted.rows.owner.copy_(room.rows.owner)
    count = len(room.rows)
    every = torch.randn(count, 3, HEADS, 16, device=DEVICE).to(dtype)
    q, k, v = (part if joined else part.transpose(0, 1).contiguous().transpose(0, 1) for part in every.unbind(1))
    for one in (room, wanted):  # as it is before the step in which these places are looked at
        lanes = torch.arange(count, device=DEVICE) % beams
        if one.rows.owner is not None:
            one.rows.owner[torch.arange(count, device=DEVICE), one.rows.filled] = lanes.to(torch.int16)
    grown = room.grown(Memory(k, v, Rows.even(count, 1, DEVICE)))
    assert grown.new is not None
    written = FixedRoom(wanted.keys, wanted.values, grown.rows, Memory(k, v, grown.rows)).written()
    near(one_query(q, grown, 0.3), by_definition(q, written, 0.3))
    assert torch.equal(room.keys, written.keys) and torch.equal(room.values, written.values), "and nothing else"


@pytest.mark.parametrize("rows", [1, 4])
def test_a_bias_is_added(rows):
    torch.manual_seed(0)
    room = room_of(LENGTHS, 1, 32, torch.float32)
    q = torch.randn(len(LENGTHS), HEADS, 32, device=DEVICE)
    bias = torch.randn(rows, 1, PLACES, HEADS, device=DEVICE).permute(0, 3, 1, 2)
    near(one_query(q, room, 0.3, bias), by_definition(q, room, 0.3, bias))


def test_a_row_that_nobody_writes_stays_inside():
    room = room_of([PLACES, 2], 1, 16, torch.float32)
    grown = room.grown(Memory(*torch.ones(2, 2, HEADS, 16, device=DEVICE), Rows.even(2, 1, DEVICE)))
    before = room.keys[1, 3:].clone()
    one_query(torch.ones(2, HEADS, 16, device=DEVICE), grown, 1.0)
    assert bool((room.keys[0, -1] == 1).all()) and bool((room.keys[1, 2] == 1).all())
    assert torch.equal(room.keys[1, 3:], before)


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("never", [(), (3,), (0, 1, 2, 70)], ids=str)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "not shared"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_most_probable_are_those_of_the_softmax(dtype, shared, never, count, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(best, "CHUNK", 64)
    for vocab in (71, 64, 300) if INTERPRETED else (71, 64, 5000):
        logits = 3 * torch.randn(5, vocab + 9, device=DEVICE).to(dtype)[:, :vocab]
        gains, tokens = best.most_probable(logits, count, never, shared=shared)
        allowed = best.without(logits, tuple(token for token in never if token < vocab))
        wanted = (allowed if shared else logits).log_softmax(-1, dtype=torch.float32)
        torch.testing.assert_close(gains, wanted.gather(-1, tokens), rtol=1e-4, atol=1e-4)
        assert torch.equal(allowed.gather(-1, tokens), allowed.topk(count).values)


def test_of_equals_the_first_is_chosen():
    logits = torch.randint(3, (7, 300), device=DEVICE).float()
    assert torch.equal(best.most_probable(logits, 1)[1].squeeze(-1).cpu(), logits.cpu().argmax(-1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [512, 100])
@pytest.mark.parametrize("bias", [True, False])
def test_a_sum_and_its_norm(bias, width, dtype):
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(width, 1e-5, bias=bias, device=DEVICE, dtype=dtype)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter, 1.0)
    x, said = (torch.randn(3, width, device=DEVICE).to(dtype) + 1 for _ in range(2))
    with torch.no_grad():
        total, normed = FusedNorm(norm).of(x, said)
        near(total, (x + said).float())
        near(normed, norm(total).float())
        near(FusedNorm(norm)(x), norm(x).float())
        total.normed = object(), x
        near(FusedNorm(norm)(total), norm(total).float())
