"""A language model as a person calls it: every family that writes goes on with texts, and tells their probability."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.decoding.generate import Writing
from regard.errors import Problem, UsageProblem
from regard.models import ENCODERS, bigram, family_of
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.rows import Tokens
from regard.tasks.reader import Reader
from regard.tasks.writer import Writer
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat.", "a dog sat and the cat sat too.", "Grüße: café €5\n"] * 3
PROMPTS = ["the cat", "a dog sat and the", "G"]
GREEDY = Writing(most=8, temperature=0)
FAMILIES = ["gpt2", "lstm-tiny", "awd-lstm-tiny", "transformer-xl-small", "bigram"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("byte-bpe", LINES, 270, special=("<|endoftext|>",))


def published(name: str, vocab: int):
    torch.manual_seed(0)
    if name == "gpt2":
        return new_encoder("gpt2", gpt2(2, 16, 2, vocab, longest=24), {"write"})
    if name == "bigram":
        return bigram.counted([np.arange(400) % 97 % vocab], vocab)
    config = ENCODERS[name]
    return new_encoder(family_of(name), replace(config, embedding=replace(config.embedding, vocab=vocab)), {"write"})


@pytest.fixture(scope="module", params=FAMILIES)
def writer(request, tokenizer) -> Writer:
    found = published(request.param, tokenizer.size)
    if request.param != "bigram":
        for parameter in found.model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return Writer(found, tokenizer)


@pytest.fixture(scope="module")
def gpt(tokenizer) -> Writer:
    return Writer(published("gpt2", tokenizer.size), tokenizer)


@torch.no_grad()
def chances(writer: Writer, ids: list[int]) -> torch.Tensor:
    """What comes after each id, all read at once."""
    return writer.model.logits(writer.model.read(Tokens.of([ids]))[0]).log_softmax(-1)


def test_greedy_goes_on_with_the_likeliest(writer):
    for prompt, found in zip(PROMPTS, writer.generate(PROMPTS, GREEDY), strict=True):
        before = writer.tokenizer.encode(prompt)
        told = chances(writer, [*before, *found.tokens])[len(before) - 1 : -1]
        assert found.prompt == prompt
        assert told.argmax(-1).tolist()[: len(found.tokens)] == found.tokens
        if found.why == "most":
            assert found.log_probability == pytest.approx(told.max(-1).values.sum().item(), rel=1e-4)


def test_a_prompt_alone_or_among_others_is_continued_alike(writer):
    how = Writing(most=8, temperature=0.8, seed=5, samples=2)
    together = writer.generate(PROMPTS, how)
    alone = [one for prompt in PROMPTS for one in writer.generate([prompt], how)]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    pieces = list(writer.stream(PROMPTS, how))
    for row, one in enumerate(together):
        assert "".join(piece.text for piece in pieces if piece.row == row) == one.text


def test_log_probabilities_are_sums_over_the_continuation(writer):
    pairs = [(p, c) for p in PROMPTS for c in (" sat", " on the mat.", "!", " sat")]
    told = writer.log_probabilities(*zip(*pairs, strict=True))
    for (prompt, continuation), one in zip(pairs, told, strict=True):
        before, after = writer.joined(prompt, continuation)
        assert writer.tokenizer.decode([*before, *after]) == prompt + continuation
        table = chances(writer, before + after)
        wanted = sum(table[len(before) - 1 + place, token].item() for place, token in enumerate(after))
        assert one.log_probability == pytest.approx(wanted, abs=1e-3)
        assert (one.tokens, one.cut) == (len(after), 0)
        assert one.mean == pytest.approx(wanted / len(after), abs=1e-3)


def test_the_chances_of_all_next_tokens_sum_to_one(gpt):
    letters = [gpt.tokenizer.decode([id]) for id in range(gpt.tokenizer.size)]
    plain = [letter for letter in letters if "\ufffd" not in letter and letter]
    alone = [one for one in plain if len(gpt.joined("the cat", one)[1]) == 1]
    told = gpt.log_probabilities(["the cat"] * len(alone), alone)
    assert 0 < sum(np.exp(one.log_probability) for one in told) < 1


def test_an_empty_prompt_begins_after_another_text(gpt):
    [found] = gpt.generate([""], GREEDY)
    end = gpt.tokenizer.special("<|endoftext|>")
    assert found.tokens[0] == chances(gpt, [end])[-1].argmax()
    assert gpt("", most=3, temperature=0) == gpt.generate([""], replace(GREEDY, most=3))[0].text


def test_an_empty_prompt_without_such_a_token_is_refused():
    tokenizer = Tokenizer.train("characters", LINES, 40, special=("<unk>",))
    writer = Writer(published("gpt2", tokenizer.size), tokenizer)
    with pytest.raises(Problem, match=r"an empty prompt.*give a word"):
        writer.generate(["the", ""], GREEDY)
    assert writer.generate(["the"], GREEDY)[0].why == "most"


def test_lines_are_read_as_in_training():
    tokenizer = Tokenizer.train("words", LINES, 40)
    writer = Writer(published("gpt2", tokenizer.size), tokenizer)
    cat, mat = tokenizer.encode("cat")[0], tokenizer.encode("mat.")[0]
    assert writer.encoded(["cat\nmat.", "cat", "cat\n", ""]) == [
        [cat, tokenizer.end, mat],
        [cat],
        [cat, tokenizer.end],
        [],
    ]


def test_a_prompt_longer_than_the_model(gpt):
    long = "the cat sat on the mat. " * 12
    length = len(gpt.tokenizer.encode(long))
    with pytest.raises(Problem, match=rf"the prompt 'the cat.* has {length} tokens, and the model 24 places.*--window"):
        gpt.generate(["a", long], GREEDY)
    with pytest.warns(UserWarning, match=f"of the {length} tokens of 'the cat.* only the last 17 are read"):
        _, found = gpt.generate(["a", long], replace(GREEDY, window=True))
    assert found.tokens[0] == chances(gpt, gpt.tokenizer.encode(long)[-17:])[-1].argmax()
    assert len(found.tokens) == 8


def test_a_continuation_that_does_not_fit(gpt):
    long = "the cat sat on the mat. " * 12
    with pytest.raises(Problem, match="24 places"):
        gpt.log_probabilities([long], [" sat"])
    [told] = gpt.log_probabilities([long], [" sat on"], window=True)
    before, after = gpt.joined(long, " sat on")
    ids = [*before, *after][-25:]
    wanted = sum(chances(gpt, ids[:-1])[place - 1, ids[place]].item() for place in range(25 - len(after), 25))
    assert told.cut == len(before) + len(after) - 25
    assert told.log_probability == pytest.approx(wanted, abs=1e-3)
    with pytest.raises(Problem, match="24 places"):
        gpt.log_probabilities(["a"], [long], window=True)
    with pytest.raises(UsageProblem, match="'' has no tokens"):
        gpt.log_probabilities(["a"], [""])


def test_nothing_asked_is_nothing_said(gpt):
    assert gpt.generate([]) == [] and gpt.log_probabilities([], []) == []


def test_a_writer_is_a_reader_that_carries_the_head(gpt, small_bert, tmp_path):
    gpt.save(tmp_path / "gpt")
    assert json.loads((tmp_path / "gpt" / "config.json").read_text())["model_type"] == "gpt2"
    reader = Reader.load(tmp_path / "gpt", "cpu")
    assert reader.tells
    again = Writer.of(reader)
    assert again.generate(PROMPTS, GREEDY) == gpt.generate(PROMPTS, GREEDY)
    assert np.allclose(again.embed(PROMPTS), gpt.embed(PROMPTS), atol=1e-6)
    bert = Reader.load(small_bert, "cpu")
    assert not bert.tells
    with pytest.raises(Problem, match="not trained to write"):
        Writer.of(bert)


def test_a_text_with_a_special_token_is_text(gpt):
    end = gpt.tokenizer.special("<|endoftext|>")
    assert end not in gpt.begun(["a <|endoftext|> b"])[0]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_text_is_the_references(gpt, tmp_path, penalty):
    reference = pytest.importorskip("transformers", reason="the reference library is not installed")
    gpt.save(tmp_path / "gpt")
    theirs = reference.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt").eval()
    end = gpt.tokenizer.special("<|endoftext|>")
    how = {"do_sample": False, "max_new_tokens": 12, "repetition_penalty": penalty, "pad_token_id": end}
    for found in gpt.generate(PROMPTS, replace(GREEDY, most=12, penalty=penalty)):
        ids = torch.tensor([gpt.tokenizer.encode(found.prompt)])
        wanted = theirs.generate(ids, attention_mask=torch.ones_like(ids), eos_token_id=end, **how)[0].tolist()
        assert [token for token in wanted[ids.shape[1] :] if token != end] == found.tokens
