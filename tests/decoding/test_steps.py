"""Decoding that is given up on its way: no step more for nobody, and the others are written as without it."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from regard.decoding.beam import Beam, beam_search, beam_search_steps
from regard.decoding.decoder import Ends
from regard.decoding.generate import Limits, Writing, drafts_of, generate_steps
from regard.decoding.sample import Sampling, sample, sample_steps
from regard.decoding.scribe import Scribe
from regard.decoding.steps import run_to_end
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens
from regard.text.tokenizer import GPT, Tokenizer

BEGIN, END, VOCAB = 0, 1, 13
ENDS = Ends(BEGIN, END, ratio=0.0, slack=12)
SOURCES = [[2, 3, 4], [5, 6], [7, 8, 9, 10], [11]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    found = Transformer(transformer(2, 16, 2, 32, vocab=VOCAB))
    with torch.no_grad():
        found.out.weight.normal_(std=0.7)
    return found.eval()


@pytest.fixture(params=["plain", "in slots"])
def writer(request, model):
    return model if request.param == "plain" else Scribe(model, launch="unrecorded")


WAYS = {
    "beam": (beam_search, beam_search_steps, Beam(3)),
    "greedy": (sample, sample_steps, Sampling(temperature=0)),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def tokens_of(found) -> list[list[int]]:
    return [one[0].tokens if isinstance(one, list) and one else getattr(one, "tokens", []) for one in found]


def test_the_others_are_written_as_if_nobody_had_left(writer, way):
    at_once, steps, how = way
    gone: set[int] = set()
    stepping = steps(writer, Tokens.of(SOURCES), ENDS, how, gone.__contains__)
    list(islice(stepping, 2))
    gone.update({0, 2})
    found, wanted = tokens_of(run_to_end(stepping)), tokens_of(at_once(writer, Tokens.of(SOURCES), ENDS, how))
    assert [found[1], found[3]] == [wanted[1], wanted[3]]


def test_when_all_have_left_there_is_no_further_step(model, writer, way, monkeypatch):
    _, steps, how = way
    taken, step = [], model.step
    monkeypatch.setattr(model, "step", lambda *given: taken.append(1) or step(*given))
    left = False
    never_ending = Ends(BEGIN, END, ratio=0.0, slack=30, never=(END,))
    stepping = steps(writer, Tokens.of(SOURCES), never_ending, how, lambda number: left)
    list(islice(stepping, 3))
    before, left = len(taken), True
    run_to_end(stepping)
    assert before >= 3 and len(taken) == before


@pytest.mark.parametrize("launch", ["plain", "unrecorded"])
def test_a_draft_that_is_abandoned_is_not_written_on(launch, monkeypatch):
    tokenizer = Tokenizer.train("byte-bpe", ["the cat sat on the mat."] * 3, 269, special=GPT)
    published = new_encoder("gpt2", gpt2(1, 16, 2, tokenizer.size, longest=64), {"write"})
    model = published.model.eval()
    limits, how = Limits(None, 64, tokenizer.size), Writing(most=20, temperature=0)
    prompts = [(text, tokenizer.encode(text)) for text in ("the cat", "a", "mat")]
    scribe = Scribe(model, launch=launch)
    wanted = drafts_of(prompts, tokenizer, how)
    for _ in generate_steps(scribe, wanted, limits, how):
        pass
    drafts = drafts_of(prompts, tokenizer, how)
    rows = []
    step = model.step
    monkeypatch.setattr(model, "step", lambda tokens, state: rows.append(len(tokens)) or step(tokens, state))
    for number, _ in enumerate(generate_steps(scribe, drafts, limits, how)):
        if number == 2:
            drafts[0].abandoned = drafts[2].abandoned = True
        if number == 5:
            drafts[1].abandoned, before = True, len(rows)
    assert [len(draft.ids) - draft.given for draft in drafts] == [3, 6, 3]
    assert drafts[1].ids == wanted[1].ids[: len(drafts[1].ids)] and len(rows) == before
