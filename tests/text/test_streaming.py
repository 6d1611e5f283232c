"""Text as it is written: whole characters, nothing of a stop string, the same in whatever parts it comes."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from regard.text.streaming import CONTEXT, Folded, Stops, Unfolding
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat", "Grüße, café €5 🙂!", "漢字 and dogs\tand cats."] * 4
KINDS = [("byte-bpe", 280), ("bpe", 80), ("unigram", 60), ("wordpiece", 80), ("words", 30), ("characters", 50)]


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(kind, LINES, vocab) for kind, vocab in KINDS}


@pytest.mark.filterwarnings("ignore:asked for")
@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_parts_joined_are_the_text(tokenizers, kind, cut):
    tokenizer = tokenizers[kind]
    ids = [id for line in LINES for id in tokenizer.encode(line)]
    unfolding = Unfolding(tokenizer, ids[:cut])
    parts = [unfolding.add(id) for id in ids[cut:]]
    assert "".join(parts) == tokenizer.decode(ids)[len(tokenizer.decode(ids[:cut])) :]
    assert len(unfolding.ids) <= 2 * CONTEXT, "a long text would take longer and longer"
    assert folded(tokenizer, ids, cut) == "".join(parts)


def folded(tokenizer, ids, cut):
    """What is told once all has been written."""
    text = Folded(tokenizer, ids[:cut])
    assert not any(text.add(id) for id in ids[cut:])
    return text.rest()


def test_half_a_character_is_never_shown():
    tokenizer = Tokenizer.train("byte-bpe", ["plain"], 259)  # every byte of 🙂 is a piece
    ids = tokenizer.encode("a🙂b")
    assert len(ids) == 6
    unfolding = Unfolding(tokenizer)
    assert [unfolding.add(id) for id in ids] == ["a", "", "", "", "🙂", "b"]
    assert [Unfolding(tokenizer).add(id) for id in ids[1:3]] == ["", ""]


def test_bytes_that_are_no_character_are_shown_once_that_is_known():
    tokenizer = Tokenizer.train("byte-bpe", ["plain"], 259)
    wrong, letter = tokenizer.encode("🙂")[0], tokenizer.encode("a")[0]
    unfolding = Unfolding(tokenizer)
    parts = [unfolding.add(id) for id in [wrong] * 100 + [letter]]
    assert "".join(parts) == "\ufffd" * 100 + "a" == tokenizer.decode([wrong] * 100 + [letter])


@given(some.lists(some.integers(3, 258), max_size=80), some.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_any_bytes_come_out_as_they_decode(ids, cut):
    tokenizer = BYTES
    unfolding = Unfolding(tokenizer, ids[:cut])
    written = "".join(unfolding.add(id) for id in ids[cut:])
    before, whole = tokenizer.decode(ids[:cut]), tokenizer.decode(ids)
    if not before.endswith("\ufffd"):  # a prompt is a text, and so ends with a whole character
        assert (before + written).rstrip("\ufffd") == whole.rstrip("\ufffd")
        assert whole.startswith(before + written)
        assert folded(tokenizer, ids, cut) == written


BYTES = Tokenizer.train("byte-bpe", ["plain"], 259)


@pytest.mark.parametrize(
    "text, stops, wanted",
    [
        ("one\ntwo", ["\n"], "one"),
        ("a stop here", ["stop"], "a "),
        ("a stopp stop", ["stop "], "a stopp stop"),
        ("aab", ["ab"], "a"),
        ("abcd", ["abcd", "bc"], "a"),  # complete first
        ("ababac", ["abac"], "ab"),
        ("say €5", ["€5"], "say "),
        ("nothing", ["thingx", "zzz"], "nothing"),
        ("nothing", [], "nothing"),
    ],
)
def test_a_stop_string_ends_a_text_in_whatever_parts_it_comes(text, stops, wanted):
    for cuts in product([False, True], repeat=min(len(text) - 1, 9)):
        stopping, shown, part = Stops(stops), "", ""
        for number, character in enumerate(text):
            part += character
            if number >= len(cuts) or cuts[number]:
                shown, part = shown + stopping.add(part), ""
            if stopping.found:
                break
        shown += stopping.add(part) if not stopping.found else ""
        assert shown + stopping.rest() == wanted
        assert stopping.found == (wanted != text)
