"""Beam search: with room for everything it is exhaustive search, with room for one it is greedy."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from regard.decoding.beam import Beam, beam_search
from regard.decoding.decoder import Ends
from regard.decoding.sample import sample
from regard.errors import UsageProblem
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

BEGIN, END, VOCAB = 0, 1, 5
SOURCES = [[2, 3, 4], [4], [3, 3, 2, 4, 2]]


@pytest.fixture(params=["transformer", "bottleneck", "additive"], scope="module")
def model(request):
    torch.manual_seed(3)
    if request.param == "transformer":
        found = Transformer(transformer(1, 16, 2, 32, vocab=VOCAB))
    else:
        score = None if request.param == "bottleneck" else request.param
        found = Seq2Seq(seq2seq(score, width=16, vocab=VOCAB))
    with torch.no_grad():
        found.out.weight.normal_(std=0.5)  # sure enough of itself that hypotheses differ
    return found.eval()


@torch.no_grad()
def everything(model, source, limit, penalty):
    """Score, log-probability and tokens of every hypothesis that can be written, best first."""
    others = [token for token in range(VOCAB) if token != END]
    every = [list(tokens) for length in range(limit) for tokens in product(others, repeat=length)]
    target = Tokens.of([[BEGIN, *tokens] for tokens in every])
    gains = model.logits(model(Tokens.of([source] * len(every)), target)).double().log_softmax(-1)
    found = []
    for tokens, gain in zip(every, target.rows.split(gains), strict=True):
        wanted = [*tokens, END]
        steps = [gain[place, token].item() for place, token in enumerate(wanted)]
        steps[limit - 1 :] = [0.0] * len(steps[limit - 1 :])  # at the limit there is no choice but to end
        found.append((sum(steps) / len(wanted) ** penalty, sum(steps), tokens))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_the_tree_finds_the_best(model, penalty):
    limit = 4
    size = sum((VOCAB - 1) ** length for length in range(limit))
    found = beam_search(model, Tokens.of(SOURCES), Ends(BEGIN, END, 0.0, limit), Beam(size, penalty, size))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        wanted = everything(model, source, limit, penalty)
        assert len(hypotheses) == len(wanted)
        for got, (score, log_probability, _) in zip(hypotheses, wanted, strict=True):
            assert math.isclose(got.score, score, rel_tol=1e-4, abs_tol=1e-4)
            assert math.isclose(got.log_probability, log_probability, rel_tol=1e-4, abs_tol=1e-4)
        assert hypotheses[0].tokens == wanted[0][2]
        assert sorted(h.tokens for h in hypotheses) == sorted(tokens for *_, tokens in wanted)


@torch.no_grad()
def by_lists(model, source, limit, how: Beam):
    """The same search for one sentence, in plain lists: every beginning is read anew."""
    going, ended = [(0.0, [])], []
    for length in range(1, limit + 1):
        grown = []
        for total, tokens in going:
            gains = model.logits(model(Tokens.of([source]), Tokens.of([[BEGIN, *tokens]])))[-1].log_softmax(-1).tolist()
            if length == limit:
                gains = [0.0 if token == END else -math.inf for token in range(VOCAB)]
            grown += [(total + gain, [*tokens, token]) for token, gain in enumerate(gains) if gain > -math.inf]
        grown.sort(reverse=True)
        ended += [(total / length**how.penalty, t[:-1]) for total, t in grown[: how.size] if t[-1] == END]
        ended = sorted(ended, reverse=True)[: how.size]
        going = [(total, t) for total, t in grown if t[-1] != END][: how.size]
        if len(ended) == how.size and going and ended[-1][0] >= going[0][0] / length**how.penalty:
            break
    return [tokens for _, tokens in ended[: how.best]]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_the_search_is_the_plain_one(model, size, penalty):
    ends, how = Ends(BEGIN, END, 1.0, 4), Beam(size, penalty, size)
    for source, found in zip(SOURCES, beam_search(model, Tokens.of(SOURCES), ends, how), strict=True):
        assert [h.tokens for h in found] == by_lists(model, source, len(source) + 4, how)


@pytest.mark.parametrize("never", [(), (BEGIN, 3)])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
def test_a_beam_of_one_is_greedy(model, penalty, never):
    source, ends = Tokens.of(SOURCES), Ends(BEGIN, END, never=never)
    beams = beam_search(model, source, ends, Beam(1, penalty))
    for (got,), wanted in zip(beams, sample(model, source, ends), strict=True):
        assert got.tokens == wanted.tokens
        assert math.isclose(got.log_probability, wanted.log_probability, rel_tol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_what_else_is_in_the_batch_does_not_matter(model, size):
    ends, how = Ends(BEGIN, END), Beam(size, best=size)
    together = beam_search(model, Tokens.of(SOURCES), ends, how)
    for source, wanted in zip(SOURCES, together, strict=True):
        (alone,) = beam_search(model, Tokens.of([source]), ends, how)
        assert [h.tokens for h in alone] == [h.tokens for h in wanted]
        assert [h.score for h in alone] == pytest.approx([h.score for h in wanted], rel=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_hypotheses_are_sorted_distinct_and_say_how_probable_they_are(model, penalty):
    ends = Ends(BEGIN, END, 1.0, 3)
    for source, found in zip(SOURCES, beam_search(model, Tokens.of(SOURCES), ends, Beam(6, penalty, 6)), strict=True):
        assert len(found) == 6 == len({tuple(h.tokens) for h in found})
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            assert len(h.tokens) < len(source) + 3 and END not in h.tokens
            assert math.isclose(h.score, h.log_probability / (len(h.tokens) + 1) ** penalty, rel_tol=1e-4)
            wanted = log_probability(model, source, h.tokens, limit=len(source) + 3)
            assert math.isclose(h.log_probability, wanted, rel_tol=1e-3)


@torch.no_grad()
def log_probability(model, source, tokens, limit):
    logits = model.logits(model(Tokens.of([source]), Tokens.of([[BEGIN, *tokens]])))
    gains = logits.log_softmax(-1)[range(len(tokens) + 1), [*tokens, END]]
    return gains[: limit - 1].sum().item()


def test_the_number_asked_for_is_returned(model):
    found = beam_search(model, Tokens.of(SOURCES), Ends(BEGIN, END), Beam(5, best=3))
    assert [len(one) for one in found] == [3] * len(SOURCES)


def test_an_empty_batch_has_no_hypotheses(model):
    assert beam_search(model, Tokens.of([]), Ends(BEGIN, END)) == []


def test_an_empty_source_is_written_from(model):
    ((best,),) = beam_search(model, Tokens.of([[]]), Ends(BEGIN, END, slack=4))
    assert len(best.tokens) < 4


@pytest.mark.parametrize("ends", [Ends(BEGIN, END, 2.0, 3), Ends(BEGIN, END, 0.0, 1), Ends(BEGIN, END, 0.5, 0)])
@pytest.mark.parametrize("size", [1, 4])
def test_a_model_that_never_ends_stops_at_the_limit(model, size, ends):
    never = NeverEnds(model)
    limits = ends.limits(Tokens.of(SOURCES)).tolist()
    for (best,), limit in zip(beam_search(never, Tokens.of(SOURCES), ends, Beam(size)), limits, strict=True):
        assert len(best.tokens) == max(limit - 1, 0)


def test_what_is_never_to_be_written_leaves_its_probability_to_the_others(model):
    never, limit = [BEGIN, 3], 7
    found = beam_search(model, Tokens.of(SOURCES), Ends(BEGIN, END, 0.0, limit, never=tuple(never)), Beam(4, best=4))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) == 4
        for h in hypotheses:
            with torch.no_grad():
                logits = model.logits(model(Tokens.of([source]), Tokens.of([[BEGIN, *h.tokens]])))
            logits[:, never] = -torch.inf
            gains = logits.log_softmax(-1)[range(len(h.tokens) + 1), [*h.tokens, END]][: limit - 1]
            assert math.isclose(h.log_probability, gains.sum().item(), rel_tol=1e-3)


class NeverEnds:
    """A model whose ending has no probability at all."""

    def __init__(self, model):
        self.start, self.model = model.start, model

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        return logits.index_fill(-1, torch.tensor([END]), -torch.inf), state


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"size": 0}, "beam 0"),
        ({"size": -3}, "beam -3"),
        ({"size": 2, "best": 3}, "n-best 3"),
        ({"best": 0}, "n-best 0"),
        ({"penalty": -0.1}, "penalty -0.1"),
        ({"penalty": float("nan")}, "penalty nan"),
        ({"penalty": float("inf")}, "penalty inf"),
    ],
)
def test_a_bad_setting_is_named(settings, word):
    with pytest.raises(UsageProblem, match=word):
        Beam(**settings)
