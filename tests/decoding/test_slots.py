"""Writing in slots, as it is recorded on a GPU, here without being recorded: the same as the plain way, whatever model,
however few slots, and however a text ends."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
import torch

from regard.attention.fixed import grids
from regard.attention.watch import watch
from regard.config import change
from regard.decoding import stage
from regard.decoding.beam import Beam, beam_search
from regard.decoding.copies import copied
from regard.decoding.decoder import Ends, prompted
from regard.decoding.fused import FusedNorm
from regard.decoding.sample import Sampling, sample
from regard.decoding.scribe import Scribe
from regard.decoding.stage import Stage, slots_for
from regard.layers.fixed import Fixed
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.t5 import T5, t5
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

BEGIN, END, VOCAB = 0, 1, 13
ENDS = Ends(BEGIN, END, never=(5,))
DRAW = random.Random(0)
SOURCES = [[DRAW.randrange(2, VOCAB) for _ in range(DRAW.randrange(0, 10))] for _ in range(11)]


def rotary():
    config = transformer(2, 16, 2, 32, vocab=VOCAB, norm_first=True)
    for part in ("encoder", "decoder"):
        config = change(config, f"{part}.block.attention.positions", "rotary")
    return Transformer(change(config, "embedding.positions", "none"))


MODELS = {
    "transformer": lambda: Transformer(transformer(2, 16, 2, 32, vocab=VOCAB)),
    "rotary": rotary,
    "t5": lambda: T5(t5(2, 16, 2, 32, size=6, vocab=VOCAB)),
}


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    torch.manual_seed(3)
    found = MODELS[request.param]()
    with torch.no_grad():
        found.out.weight.normal_(std=0.7)  # sure enough of itself that rows differ, and end
    return found.eval()


@pytest.fixture(params=[1024, 8], ids=["one fill", "slots filled again"])
def scribe(request, model, monkeypatch):
    monkeypatch.setattr(stage, "MOST", request.param)
    monkeypatch.setattr(stage, "FEWEST", 4)  # so that rooms grow
    found = Scribe(model, launch="unrecorded")
    assert found.fits
    return found


def alike(found, wanted):
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], rel=1e-4, abs=1e-5)


def test_greedily_it_is_the_plain_way(model, scribe):
    for _ in range(2):  # the second time on the same stage
        alike(sample(scribe, Tokens.of(SOURCES), ENDS), sample(model, Tokens.of(SOURCES), ENDS))


@pytest.mark.parametrize("how", [Beam(3, 0.6, 3), Beam(4)], ids=str)
def test_beams_are_those_of_the_plain_way(model, scribe, how):
    wanted = beam_search(model, Tokens.of(SOURCES), ENDS, how)
    for _ in range(1 + (how.size == 4)):  # the second time on the same stage
        for found, right in zip(beam_search(scribe, Tokens.of(SOURCES), ENDS, how), wanted, strict=True):
            alike(found, right)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_where_there_is_hardly_a_place_to_write(model, scribe, limit):
    ends, source = Ends(BEGIN, END, 0.0, limit), Tokens.of(SOURCES[:3])
    alike(sample(scribe, source, ends), sample(model, source, ends))
    for found, right in zip(beam_search(scribe, source, ends), beam_search(model, source, ends), strict=True):
        alike(found, right)


@pytest.mark.parametrize("beams", [0, 3])
def test_prompts_are_gone_on_with_to_the_last_place(beams, monkeypatch):
    monkeypatch.setattr(stage, "MOST", 8)
    torch.manual_seed(0)
    model = new_encoder("gpt2", gpt2(2, 16, 2, vocab=VOCAB, longest=12, dropout=0.0), {"write"}).model.eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    prompts = [[3], [3, 4, 5], [6], [7, 8, 9, 3, 4], [2, 2, 2], [3]]
    before, begin = prompted(Tokens.of(prompts))
    ends = Ends(begin, END, 0.0, 100, torch.tensor([12 - len(prompt) + 1 for prompt in prompts]))
    hand = Scribe(model, launch="unrecorded")
    if beams:
        for found, right in zip(*(beam_search(m, before, ends, Beam(beams)) for m in (hand, model)), strict=True):
            alike(found, right)
    else:
        alike(sample(hand, before, ends), sample(model, before, ends))


def test_what_cannot_lie_still_is_written_the_plain_way(model):
    recurrent = Seq2Seq(seq2seq("dot", width=16, vocab=VOCAB)).eval()
    hand = Scribe(recurrent, launch="unrecorded")
    assert not hand.fits
    alike(sample(hand, Tokens.of(SOURCES), ENDS), sample(recurrent, Tokens.of(SOURCES), ENDS))
    assert not Scribe(Transformer(change(SMALL, "decoder.block.attention.score", "additive")), launch="unrecorded").fits
    assert not Scribe(model).fits, "on a CPU nothing is gained"
    drawn = [sample(m, Tokens.of(SOURCES), ENDS, Sampling(seed=2)) for m in (Scribe(model, launch="unrecorded"), model)]
    alike(*drawn)


SMALL = transformer(1, 16, 2, 32, vocab=VOCAB)


def test_one_that_is_watched_is_seen():
    model = Transformer(SMALL).eval()
    hand = Scribe(model, "bf16", launch="unrecorded")
    sample(hand, Tokens.of(SOURCES), ENDS)
    with watch(model, "decoder.*") as seen:
        assert not hand.fits and hand.hand is model
        sample(hand, Tokens.of(SOURCES), ENDS)
    assert seen and hand.fits


def test_a_stage_is_used_again_and_by_one_at_a_time(model):
    hand = Scribe(model, launch="unrecorded")
    assert hand.fits
    make = partial(Stage, hand, 2, 1, 4)
    with hand.stage("a", make) as first, hand.stage("a", make) as second:
        assert first is not second
    with hand.stage("a", lambda: pytest.fail("there are two")) as again:
        assert again in (first, second)
    for key in range(9):
        with hand.stage(key, make):
            pass
    assert list(hand.stages) == [5, 6, 7, 8], "those used last are kept"


def test_weights_that_change_are_followed():
    torch.manual_seed(0)
    model = Transformer(SMALL).eval()
    for precision in ("float32", "bf16"):
        hand = Scribe(model, precision, launch="unrecorded")
        sample(hand, Tokens.of(SOURCES), ENDS)
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(std=0.3)
        fresh = Scribe(model, precision, launch="unrecorded")
        alike(sample(hand, Tokens.of(SOURCES), ENDS), sample(fresh, Tokens.of(SOURCES), ENDS))
        model.decoder.blocks[0].feed.up.weight = torch.nn.Parameter(torch.randn(32, 16))  # it lies elsewhere now
        fresh = Scribe(model, precision, launch="unrecorded")
        alike(sample(hand, Tokens.of(SOURCES), ENDS), sample(fresh, Tokens.of(SOURCES), ENDS))


def test_a_copy_says_the_same_in_fewer_products(model, monkeypatch):
    made = copied(model)
    assert {weight.dtype for weight in made.parameters()} == {torch.bfloat16}
    assert [name for name, _ in made.named_parameters()] == [name for name, _ in model.named_parameters()]
    plain = type(model)(model.config).eval()
    plain.load_state_dict(model.state_dict())
    plain.to(torch.bfloat16)
    source, target = Tokens.of(SOURCES), Tokens.of([[BEGIN, *source] for source in SOURCES])
    with torch.no_grad():
        states = made(source, target)
        torch.testing.assert_close(states, plain(source, target), rtol=0.02, atol=0.02)
        assert torch.equal(made.logits(states), plain.logits(states)), "of a table that is longer, and no word more"
    calls = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *given: calls.append(1) or linear(*given))
    counts = []
    for one in (made, plain):
        with torch.inference_mode():
            state, before = one.start(Tokens.of([[2, 3]])), len(calls)
            one.step(torch.tensor([BEGIN]), state)
        counts.append(len(calls) - before)
    assert counts[1] - counts[0] == 2 * len(model.decoder.order)


@pytest.mark.parametrize("norm_first", [True, False])
def test_sums_of_a_copy_know_the_norm_that_follows(norm_first):
    """Each norm is computed with the sum that it is of; only the first of a stack whose norms come first has none."""
    model = Transformer(transformer(2, 16, 2, 32, vocab=VOCAB, norm_first=norm_first)).eval()
    made, plain = copied(model), Transformer(model.config).eval()
    plain.load_state_dict(model.state_dict())
    plain.to(torch.bfloat16)
    alone = []
    for part in made.decoder.modules():
        if isinstance(part, FusedNorm):
            part.of = lambda x, said=None, of=part.of: alone.append(said is None) or of(x, said)
    with torch.inference_mode():
        tokens, source = torch.tensor([BEGIN, 3]), Tokens.of([[2, 3], [4]])
        found, wanted = (one.step(tokens, one.start(source))[0] for one in (made, plain))
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02)
    assert len(alone) == 6 + norm_first and sum(alone) == norm_first


def test_a_row_in_a_slot_can_be_taken_out_again(model):
    """What lies in a grid is, laid end to end, what the plain way remembers."""
    with torch.inference_mode():
        beams, source = 2, Tokens.of(SOURCES[:3])
        plain = model.start(source, beams)
        fixed = Fixed.like(plain, 4, beams, 32)
        slots = torch.tensor([2, 0, 3])
        fixed.put(slots, plain)
        rows = (slots[:, None] * beams + torch.arange(beams)).flatten()
        tokens, parents = torch.full((8,), 3), torch.tensor([[0, 1], [0, 1], [1, 1], [1, 0]])
        for step in range(3):
            tokens[rows] = torch.arange(6) + 2 + step
            wanted, plain = model.step(tokens[rows], plain)
            found, _ = model.step(tokens, fixed.within(16))
            torch.testing.assert_close(found[rows], wanted, rtol=1e-4, atol=1e-5)
            fixed.at.add_(1)
            fixed.follow(parents, 16)
            plain = plain.select((parents[slots] + torch.arange(3)[:, None] * beams).flatten())
        for mine, theirs in zip(fixed.traces, plain.traces, strict=True):
            torch.testing.assert_close(mine.own.select(rows).k, theirs.own.k, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(mine.source.select(slots).v, theirs.source.v)


@pytest.mark.parametrize("beams", [1, 2])
def test_sources_read_by_one_launch_lie_where_others_do(model, beams):
    """Whatever fills them up, and whatever lay in their slots; slots that are not asked for stay as they are."""
    hand = Scribe(model, launch="unrecorded")
    with torch.inference_mode(), hand.stage("once", partial(Stage, hand, 8, beams, 32)) as once:
        plain = Stage(hand, 8, beams, 32)
        for one in (once, plain):
            for grid in (one.fixed.at, *(grid for trace in one.fixed.traces for grid in grids(trace.source))):
                grid.fill_(7)  # of those who wrote before
        for slots, sources in (([5, 0, 2], SOURCES[:3]), ([7, 2], SOURCES[3:5])):
            assert once.read_at_once(slots, sources)
            plain.read_sources(torch.tensor(slots), sources)
        for mine, theirs in zip(once.fixed.traces, plain.fixed.traces, strict=True):
            for found, wanted in zip(grids(mine.source), grids(theirs.source), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
            assert torch.equal(mine.source.rows.filled, theirs.source.rows.filled)
        assert torch.equal(once.fixed.at, plain.fixed.at) and (once.fixed.at == 7).sum() == 4 * beams
        assert list(once.readings) == [(32, 32)] and not plain.readings
        assert not once.read_at_once([1], [[3] * 33]), "longer than its places"


def test_as_many_slots_as_there_is_room_for(model, monkeypatch):
    hand = Scribe(model, launch="unrecorded")
    assert hand.fits and not hand.reads
    assert [slots_for(hand, count, 1, 8) for count in (1, 3, 100)] == [1, 4, 128]
    assert slots_for(hand, 1000, 5, 8) == 128, "of 5 rows each"
    monkeypatch.setattr(stage, "ROOM", 5 * 16 * hand.place)
    assert slots_for(hand, 100, 1, 16) == 2, "each has its source beside it"
    assert slots_for(hand, 100, 1, 256) == 1


def test_a_long_one_is_written_apart_where_there_is_no_room(model, monkeypatch):
    hand = Scribe(model, launch="unrecorded")
    assert hand.fits
    monkeypatch.setattr(stage, "ROOM", 200 * hand.place)
    sources = [[3] * 60, *SOURCES]
    ends = replace(ENDS, ratio=1.0)
    alike(sample(hand, Tokens.of(sources), ends), sample(model, Tokens.of(sources), ends))
    assert len({key[1:3] for key in hand.stages}) > 1


def test_a_block_is_compiled_whole():
    """Nothing in a step of it is left to Python: torch can take in all of it at once."""
    hand = Scribe(Transformer(SMALL).eval(), "bf16", launch="unrecorded")
    wanted = sample(hand, Tokens.of(SOURCES), ENDS)
    for block in hand.copy.decoder.blocks:
        block.compile(backend="eager", fullgraph=True, dynamic=False)
    alike(sample(hand, Tokens.of(SOURCES), ENDS), wanted)
    torch.compiler.reset()
