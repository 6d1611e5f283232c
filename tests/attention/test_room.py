"""A memory in a grid says what the same memory says that is laid end to end."""

from __future__ import annotations

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.mask import CAUSAL, band
from regard.attention.memory import Choice, Memory, Room, Still
from regard.attention.score import ScaledDot
from regard.attention.step import attend_in_room
from regard.rows import Rows


def memory(lengths):
    rows = Rows.of(lengths)
    return Memory(torch.randn(rows.total, 2, 4), torch.randn(rows.total, 2, 4), rows)


def same(room: Room, wanted: Memory) -> None:
    assert room.rows.lengths.tolist() == wanted.rows.lengths.tolist()
    assert torch.equal(room.k, wanted.k) and torch.equal(room.v, wanted.v)


PARTS = [
    pytest.param([[2, 2], [1, 1], [1, 1], [3, 3]], id="even"),
    pytest.param([[2, 0, 3], [1, 1, 1], [0, 4, 1], [1, 1, 1]], id="ragged"),
]


@pytest.mark.parametrize("parts", PARTS)
def test_a_room_grows_as_a_memory_does(parts):
    first, *others = [memory(lengths) for lengths in parts]
    wanted, room = first, Room.of(first)
    for more in others:
        wanted, room = wanted.grown(more), room.grown(more)
        same(room, wanted)
    with torch.no_grad():
        assert isinstance(first.grown(others[0]), Room)  # nobody goes back


def test_what_is_new_is_written_in_place_while_there_are_places():
    room = Room.of(memory([2, 3])).grown(memory([1, 1]))
    again = room.grown(memory([1, 1]))
    assert again.keys is room.keys and room.rows.lengths.tolist() == [3, 4]
    assert room.grown(memory([9, 9])).keys is not room.keys


def test_the_same_room_may_be_grown_from_again():
    room, one, other = Room.of(memory([2, 3])).grown(memory([1, 1])), memory([1, 1]), memory([1, 1])
    before = room.flat()
    room.grown(one)
    same(room.grown(other), before.grown(other))
    same(room, before)


@pytest.mark.parametrize("lengths", [[2, 0, 3], [2, 2, 2]])
def test_rows_that_are_chosen_have_a_room_of_their_own(lengths):
    room, chosen = Room.of(memory(lengths)).grown(memory([1, 1, 1])), torch.tensor([2, 0, 0])
    part, wanted = room.select(chosen), room.flat().select(chosen)
    room.grown(memory([1, 1, 1]))
    same(part, wanted)
    more = memory([1, 1, 1])
    part.keys[:, part.rows.longest :] = torch.nan  # nobody has written there
    grown = part.grown(more)
    same(grown, wanted.grown(more))
    looked_at = grown.keys[:, : grown.rows.longest]
    assert bool(looked_at.isfinite().all())  # what no place holds is looked at with a weight of 0, and 0 * NaN is NaN


def test_a_memory_that_lies_still_is_the_same_memory():
    whole, more, chosen = memory([2, 0, 3]), memory([1, 2, 0]), torch.tensor([0, 1])
    still = Still.of(whole)
    same(still, whole)
    same(still.select(chosen), whole.select(chosen))
    assert isinstance(still.select(chosen), Still)
    same(still.grown(more), whole.grown(more))
    same(still, whole)


@pytest.mark.parametrize("kind", [Room.of, Still.of, lambda memory: memory], ids=["room", "still", "memory"])
def test_all_rows_in_their_order_are_what_was_there(kind):
    whole = kind(memory([2, 0, 3]))
    assert whole.select(torch.arange(3)) is whole
    assert whole.select(torch.arange(2)) is not whole


def test_layers_have_their_rows_in_common():
    first, choice = memory([2, 0, 3]), Choice(torch.tensor([2, 0]))
    second = Memory(first.k, first.v, first.rows)
    assert Room.of(first).select(choice).rows is Room.of(second).select(choice).rows


@pytest.mark.parametrize("mask", [None, CAUSAL, band(2, 0)], ids=["full", "causal", "window"])
@pytest.mark.parametrize("queries", [[1, 1, 1], [2, 0, 3], [2, 2, 2]], ids=str)
@pytest.mark.parametrize("lengths", [[4, 3, 6], [5, 5, 5], [3, 0, 3]], ids=str)
def test_attention_in_a_room_is_attention(lengths, queries, mask):
    rows, whole, score = Rows.of(queries), memory(lengths), ScaledDot(4)
    room = Room.of(whole).widened(9)
    q, bias = torch.randn(rows.total, 2, 4), torch.randn(1, 2, rows.longest, whole.rows.longest)
    for added in (None, bias):
        wanted = attend(q, whole, rows, score=score, mask=mask, bias=added)
        for one in (room, Still.of(room)):
            got = attend_in_room(q, one, rows, score=score, mask=mask, bias=added)
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
