"""Drawing tokens: what may be drawn is what the definitions say, seeds repeat, and writing ends."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.decoder import Ends
from regard.decoding.sample import GREEDY, Sampling, sample
from regard.errors import UsageProblem
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

BEGIN, END, VOCAB = 0, 1, 11
SOURCES = [[2, 3, 4], [4], [3, 3, 2, 4, 2], [9, 8]]
ENDS = Ends(BEGIN, END)


@pytest.fixture(params=["transformer", "additive"], scope="module")
def model(request):
    torch.manual_seed(1)
    if request.param == "transformer":
        return Transformer(transformer(1, 16, 2, 32, vocab=VOCAB)).eval()
    return Seq2Seq(seq2seq(request.param, width=16, vocab=VOCAB)).eval()


def probabilities(logits: list[float], temperature, top_k, top_p) -> list[float]:
    """Temperature, then the k most probable, then the fewest of those that are together at least top_p."""
    powers = [math.exp((x - max(logits)) / temperature) for x in logits]
    ranked = sorted(range(len(logits)), key=lambda i: -powers[i])[:top_k]
    whole = sum(powers[i] for i in ranked)
    kept, together = [], 0.0
    for i in ranked:
        if together < (top_p or 1.0):
            kept.append(i)
            together += powers[i] / whole
    whole = sum(powers[i] for i in kept)
    return [powers[i] / whole if i in kept else 0.0 for i in range(len(logits))]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.2, 3),
    st.none() | st.integers(1, 15),
    st.none() | st.floats(0.05, 0.95),
)
def test_narrowing_is_what_the_definitions_say(seed, temperature, top_k, top_p):
    logits = torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(seed)) * 2
    got = Sampling(temperature, top_k, top_p).narrowed(logits).softmax(-1)
    wanted = [probabilities(row, temperature, top_k, top_p) for row in logits.tolist()]
    torch.testing.assert_close(got, torch.tensor(wanted), rtol=1e-4, atol=1e-5)


def test_all_of_the_probability_is_everything():
    logits = torch.tensor([[0.0, -40.0, -60.0, -80.0]])
    assert Sampling(top_p=1.0).narrowed(logits).isfinite().all()


def test_equally_probable_tokens_are_still_only_k():
    assert Sampling(top_k=2).narrowed(torch.zeros(1, 5)).isfinite().sum() == 2


def test_a_fully_certain_model_is_followed():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    for how in (Sampling(), Sampling(top_p=0.5), Sampling(top_k=2), Sampling(0.1, 2, 0.9)):
        assert how.choose(logits, torch.Generator()).item() == 1


def test_draws_are_as_frequent_as_probable():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).expand(20000, 4)
    drawn = Sampling(top_k=3).choose(logits, torch.Generator().manual_seed(0))
    shares = drawn.bincount(minlength=4) / len(drawn)
    torch.testing.assert_close(shares, torch.tensor(probabilities([2, 1, 0, -1], 1, 3, None)), rtol=0, atol=0.02)


def test_a_seed_repeats(model):
    first, again, other = (sample(model, Tokens.of(SOURCES), ENDS, Sampling(seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_the_global_generator_is_left_alone(model):
    state = torch.get_rng_state()
    sample(model, Tokens.of(SOURCES), ENDS, Sampling(seed=1))
    assert torch.equal(torch.get_rng_state(), state)


COLD = [Sampling(temperature) for temperature in (1e-3, 1e-5, 1e-50)]


@pytest.mark.parametrize("how", [*COLD, Sampling(top_k=1), Sampling(top_p=1e-9)], ids=str)
def test_next_to_no_chance_is_greedy(model, how):
    greedy = sample(model, Tokens.of(SOURCES), ENDS, GREEDY)
    assert [h.tokens for h in sample(model, Tokens.of(SOURCES), ENDS, how)] == [h.tokens for h in greedy]


@torch.no_grad()
def test_greedy_writes_the_most_probable_token_each_time(model):
    for source, found in zip(SOURCES, sample(model, Tokens.of(SOURCES), ENDS), strict=True):
        logits = model.logits(model(Tokens.of([source]), Tokens.of([[BEGIN, *found.tokens]])))
        limit = int(ENDS.limits(Tokens.of([source])))
        wanted = logits.argmax(-1).tolist()[: limit - 1]
        assert [*found.tokens, END][: limit - 1] == wanted
        gains = logits.log_softmax(-1).amax(-1)[: limit - 1].sum().item()
        assert math.isclose(found.log_probability, gains, rel_tol=1e-4)


def test_what_else_is_in_the_batch_does_not_matter_to_greedy(model):
    together = sample(model, Tokens.of(SOURCES), ENDS)
    assert [sample(model, Tokens.of([source]), ENDS)[0].tokens for source in SOURCES] == [h.tokens for h in together]


class NeverEnds:
    """A model whose ending has no probability at all."""

    def __init__(self, model):
        self.start, self.model = model.start, model

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        return logits.index_fill(-1, torch.tensor([END]), -torch.inf), state


@pytest.mark.parametrize("how", [GREEDY, Sampling(), Sampling(top_p=0.9)])
def test_a_model_that_never_ends_stops_at_the_limit(model, how):
    ends = Ends(BEGIN, END, 2.0, 3)
    found = sample(NeverEnds(model), Tokens.of(SOURCES), ends, how)
    assert [len(h.tokens) for h in found] == [2 * len(source) + 2 for source in SOURCES]


@pytest.mark.parametrize("how", [GREEDY, Sampling(2.0), Sampling(1.0, top_p=0.9)], ids=str)
def test_what_is_never_to_be_written_is_not(model, how):
    source = Tokens.of(SOURCES)
    never = tuple({token for h in sample(model, source, ENDS, how) for token in h.tokens})[:3]
    found = sample(model, source, Ends(BEGIN, END, never=never), how)
    assert never and not any(set(never) & set(h.tokens) for h in found)


def test_an_empty_batch_has_no_hypotheses(model):
    assert sample(model, Tokens.of([]), ENDS) == []


@pytest.mark.parametrize("empty", [[[]], [[], []], [[], [3, 2]]])
def test_an_empty_source_is_written_from(model, empty):
    assert len(sample(model, Tokens.of(empty), ENDS)) == len(empty)


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"temperature": -1.0}, "temperature -1"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": float("inf")}, "temperature inf"),
        ({"top_k": 0}, "top-k 0"),
        ({"top_p": 0.0}, "top-p 0"),
        ({"top_p": 1.1}, "top-p 1.1"),
        ({"top_p": float("nan")}, "top-p nan"),
    ],
)
def test_a_bad_setting_is_named(settings, word):
    with pytest.raises(UsageProblem, match=word):
        Sampling(**settings)
