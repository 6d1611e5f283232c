"""Going on with texts: greedy is an argmax loop; nobody's text depends on its neighbours; all limits are kept."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from regard.decoding import stage
from regard.decoding.choosing import drawn, penalized
from regard.decoding.generate import Limits, Writing, Written, drafts_of, generate
from regard.decoding.scribe import Scribe
from regard.errors import UsageProblem
from regard.models import bigram
from regard.models.encoder import Encoder, HeadedEncoder, NextHead
from regard.models.gpt2 import gpt2
from regard.rows import Tokens
from regard.text.tokenizer import Tokenizer

PLACES, WIDTH = 24, 16
PROMPTS = ["the cat", "a", "the dog sat on the mat and", "mat mat"]
GREEDY = Writing(most=12, temperature=0)
CHANCE = Writing(most=12, temperature=1.5, seed=3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("words", ["the cat sat on the mat", "a dog and a cat"], 20)


@pytest.fixture(scope="module")
def model(tokenizer) -> HeadedEncoder:
    """Its numbers are large, so that texts differ and nothing is nearly a tie."""
    torch.manual_seed(1)
    vocab = tokenizer.size + 5  # a table with rows that are no tokens
    model = HeadedEncoder(Encoder(gpt2(2, WIDTH, 2, vocab, longest=PLACES)), {"write": NextHead(WIDTH, vocab)})
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model.eval()


@pytest.fixture(scope="module", params=["plain", "unrecorded", "few slots"])
def write(request, model, tokenizer):
    """By the model itself, and as it is done where steps are recorded; also with fewer slots than texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "FEWEST", 4)
        patch.setattr(stage, "MOST", 2 if request.param == "few slots" else 64)
        launch = "plain" if request.param == "plain" else "unrecorded"
        yield partial(written_by, Scribe(model, launch=launch), tokenizer)


def written_by(model, tokenizer, prompts: list[str], how: Writing, end: int | None = None) -> list[Written]:
    limits = Limits(end, PLACES, tokenizer.size)
    prompted = [(prompt, tokenizer.encode(prompt)) for prompt in prompts]
    drafts = drafts_of(prompted, tokenizer, how)
    pieces = list(generate(model, drafts, limits, how))
    done = {piece.row: piece.done for piece in pieces if piece.done}
    for row, one in done.items():
        assert "".join(piece.text for piece in pieces if piece.row == row) == one.text
        assert [piece.done is not None for piece in pieces if piece.row == row][-1]
    at_once = generate(model, drafts_of(prompted, tokenizer, how, streamed=False), limits, how)
    assert {piece.row: piece.done for piece in at_once if piece.done} == done, "nobody reads along"
    return [done[row] for row in range(len(prompts) * how.samples)]


@torch.no_grad()
def next_logits(model, ids: list[int], vocab: int) -> torch.Tensor:
    """What comes next after ids, all read anew."""
    return model.logits(model(Tokens.of([ids]))[-1:])[0, :vocab]


def test_greedy_is_an_argmax_over_all_that_was_written(model, tokenizer, write):
    for prompt, found in zip(PROMPTS, write(PROMPTS, GREEDY), strict=True):
        ids, total = tokenizer.encode(prompt), 0.0
        for token in found.tokens:
            logits = next_logits(model, ids, tokenizer.size)
            assert token == logits.argmax()
            total += logits.log_softmax(-1).max().item()
            ids.append(token)
        assert len(found.tokens) == 12 and found.why == "most"
        assert math.isclose(found.log_probability, total, rel_tol=1e-4)
        assert (prompt + " " + tokenizer.decode(found.tokens)).split() == (prompt + found.text).split()


@pytest.mark.parametrize("how", [GREEDY, CHANCE, replace(CHANCE, top_k=4, penalty=1.4), replace(CHANCE, top_p=0.7)])
def test_what_is_beside_a_prompt_does_not_matter(write, how):
    together = write(PROMPTS, how)
    assert [write([prompt], how)[0].tokens for prompt in PROMPTS] == [one.tokens for one in together]
    assert [one.tokens for one in write(PROMPTS[::-1], how)] == [one.tokens for one in together[::-1]]


def test_samples_differ_and_seeds_repeat(write):
    found = write(["the cat", "a"], replace(CHANCE, samples=3))
    assert len({tuple(one.tokens) for one in found}) == 6
    assert [one.prompt for one in found] == ["the cat"] * 3 + ["a"] * 3
    again = write(["the cat", "a"], replace(CHANCE, samples=3))
    assert found == again
    assert write(["the cat", "the cat"], CHANCE)[1].tokens == found[1].tokens, "the same prompt again is a sample more"
    assert write(["the cat"], replace(CHANCE, seed=4))[0].tokens != found[0].tokens


def test_the_end_token_ends_a_text(model, tokenizer, write):
    free = write(PROMPTS, GREEDY)
    end = free[0].tokens[4]
    cut = write(PROMPTS, GREEDY, end=end)
    for before, after in zip(free, cut, strict=True):
        wanted = before.tokens[: before.tokens.index(end)] if end in before.tokens else before.tokens
        assert after.tokens == wanted
        assert after.why == ("end" if end in before.tokens else "most")


def test_a_full_model_stops_and_says_so(write, tokenizer):
    found = write(PROMPTS, replace(GREEDY, most=100))
    for prompt, one in zip(PROMPTS, found, strict=True):
        assert one.why == "places"
        assert len(one.tokens) == PLACES - len(tokenizer.encode(prompt)) + 1  # the last is written, and needs no place


def test_with_a_window_the_last_half_is_read_again(model, tokenizer, write):
    how = replace(GREEDY, most=70, window=True)
    for prompt, found in zip(PROMPTS, write(PROMPTS, how), strict=True):
        ids, first = tokenizer.encode(prompt), 0
        for token in found.tokens:
            if len(ids) - first > PLACES:
                first = len(ids) - PLACES // 2
            assert token == next_logits(model, ids[first:], tokenizer.size).argmax()
            ids.append(token)
        assert len(found.tokens) == 70 and found.why == "most"


def test_chances_are_the_models(model, tokenizer, write, monkeypatch):
    monkeypatch.setattr(stage, "MOST", 1024)
    shares = next_logits(model, tokenizer.encode("the cat"), tokenizer.size).softmax(-1)
    found = write(["the cat"], Writing(most=1, samples=4000))
    counts = torch.bincount(torch.tensor([one.tokens[0] for one in found]), minlength=tokenizer.size) / 4000
    assert (counts - shares).abs().max() < 0.03
    kept = set(shares.topk(3).indices.tolist())
    assert {one.tokens[0] for one in write(["the cat"], Writing(most=1, samples=300, top_k=3))} == kept


def test_a_number_draws_the_token_where_the_sum_passes_it():
    shares = torch.tensor([[0.25, 0.0, 0.5, 0.25]]).repeat(5, 1)
    chance = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 1 - 2**-53], dtype=torch.float64)
    assert drawn(shares, chance).tolist() == [0, 0, 2, 2, 3]


def test_a_penalty_makes_what_is_there_less_probable(model, write, tokenizer):
    assert penalized(torch.tensor([2.0, -2.0]), 2.0).tolist() == [1.0, -4.0]
    found = write(PROMPTS, replace(GREEDY, penalty=1.5))
    assert found != write(PROMPTS, GREEDY)
    for prompt, one in zip(PROMPTS, found, strict=True):
        ids = tokenizer.encode(prompt)
        for token in one.tokens:
            logits = next_logits(model, ids, tokenizer.size)
            for seen in set(ids):
                logits[seen] = logits[seen] / 1.5 if logits[seen] > 0 else logits[seen] * 1.5
            assert token == logits.argmax()
            ids.append(token)


def test_a_stop_string_over_several_tokens(write):
    free = write(["the cat"], GREEDY)[0]
    words = free.text.split()
    stop = f"{words[3][-1]} {words[4][:2]}"  # from inside a token into the next
    cut = write(["the cat"], replace(GREEDY, stop=(stop, "never")))[0]
    assert cut.why == "stop"
    assert cut.text == free.text[: free.text.index(stop)]


def test_a_stop_string_inside_the_bytes_of_a_character():
    tokenizer = Tokenizer.train("byte-bpe", ["plain"], 259)
    ids = tokenizer.encode("ax🙂é漢!")  # of which no byte comes twice, so that bigrams spell it
    model = bigram.counted([np.array(ids * 3)], tokenizer.size).model
    write, most = partial(written_by, model, tokenizer, ["a"]), len(ids) - 1
    assert write(Writing(most=most, temperature=0))[0].text == "x🙂é漢!"
    for stop, text in (("🙂", "x"), ("é漢", "x🙂"), ("漢!", "x🙂é"), ("漢?", "x🙂é漢!")):
        found = write(Writing(most=most, temperature=0, stop=(stop,)))[0]
        assert (found.text, found.why) == (text, "most" if stop == "漢?" else "stop")
    cut = [write(Writing(most=number, temperature=0))[0].text for number in range(1, most + 1)]
    assert cut == ["x", "x", "x", "x", "x🙂", "x🙂", "x🙂é", "x🙂é", "x🙂é", "x🙂é漢", "x🙂é漢!"]


def test_no_drafts_write_nothing(model, tokenizer):
    assert list(generate(model, [], Limits(None, PLACES, tokenizer.size))) == []


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"temperature": -0.5}, "temperature -0.5"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"temperature": math.inf}, "temperature inf"),
        ({"top_k": 0}, "top-k 0"),
        ({"top_k": -1}, "top-k -1"),
        ({"top_p": 0.0}, "top-p 0"),
        ({"top_p": 1.5}, "top-p 1.5"),
        ({"penalty": 0.0}, "penalty 0"),
        ({"penalty": -1.0}, "penalty -1"),
        ({"penalty": math.nan}, "penalty nan"),
        ({"stop": ("",)}, "empty stop"),
        ({"stop": ("ok", "\udcc3")}, "half a character"),
        ({"most": 0}, "at least 1"),
        ({"samples": 0}, "at least 1"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_a_bad_setting_is_named(settings, word):
    with pytest.raises(UsageProblem, match=word):
        Writing(**settings)
