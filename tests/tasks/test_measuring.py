"""How well a language model tells text, against a loop over its tokens."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.attention import AttentionConfig
from regard.data.corpus import Corpus
from regard.errors import UsageProblem
from regard.layers.block import BlockConfig
from regard.layers.embedding import EmbeddingConfig
from regard.layers.stack import StackConfig
from regard.models.bigram import counted
from regard.models.encoder import Encoder, EncoderConfig, HeadedEncoder, NextHead
from regard.rows import Tokens
from regard.tasks.measuring import Measured, Measuring, measured, told_after
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat\n", "on the mat sat the cat\n", "\n"] * 8


def language_model(vocab: int, positions: str = "learned", longest: int = 16) -> HeadedEncoder:
    torch.manual_seed(0)
    attention = AttentionConfig(2, positions="none" if positions == "learned" else "rotary")
    block = BlockConfig(16, 32, norm_first=True, dropout=0.0, attention=attention)
    embedding = EmbeddingConfig(vocab, 16, positions, longest, scaled=False, dropout=0.0)
    config = EncoderConfig(embedding, StackConfig(2, causal=True, final_norm=True, block=block))
    return HeadedEncoder(Encoder(config), {"write": NextHead(16, vocab)}).eval()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(LINES))
    tokenizer = Tokenizer.train("words", LINES, 50)
    return Corpus.make([path], tokenizer, tmp_path / "text", whole=True), tokenizer


def told(model: HeadedEncoder, ids: list[int], at: int, begin: int) -> float:
    """-log p of the token at a place, when the text is read from `begin`."""
    with torch.no_grad():
        states, _ = model.read(Tokens.of([ids[begin:at]]))
        return -model.logits(states)[-1].log_softmax(-1)[ids[at]].item()


@pytest.mark.parametrize("streams", [1, 3])
def test_a_model_without_end_reads_all_at_once(text, streams):
    corpus, tokenizer = text
    model = language_model(tokenizer.size, "none")
    found = measured(model, corpus, told_after(tokenizer), Measuring(7, streams=streams))
    ids = [tokenizer.end, *corpus.ids(0, corpus.facts.tokens).tolist()]
    length = (len(ids) - 1) // streams
    begins = [min((at - 1) // length, streams - 1) * length for at in range(1, len(ids))]
    assert found.total == pytest.approx(sum(told(model, ids, at, b) for at, b in enumerate(begins, 1)), rel=1e-5)
    assert found.tokens == found.words == corpus.facts.tokens


@pytest.mark.parametrize("stride", [0, 1, 5, 16])
def test_windows_overlap_and_each_token_is_told_once(text, stride):
    corpus, tokenizer = text
    model = language_model(tokenizer.size)
    found = measured(model, corpus, None, Measuring(stride=stride))
    ids = corpus.ids(0, corpus.facts.tokens).tolist()
    stride, total = stride or 8, 0.0
    for at in range(1, len(ids)):
        window = 0 if at <= 16 else -(-(at - 16) // stride)
        total += told(model, ids, at, window * stride)
    assert found.total == pytest.approx(total, rel=1e-5)
    assert found.tokens == len(ids) - 1


def test_the_numbers_are_those_of_the_text():
    found = {score.metric: score.value for score in Measured(100 * math.log(2), 50, 25, 200).scores()}
    expected = {"loss": 2 * math.log(2), "perplexity a token": 4, "perplexity a word": 16, "bits a byte": 0.5}
    assert found == pytest.approx(expected)
    assert Measured(1e6, 1, 1, 1).perplexity_a_word == math.inf


def test_what_is_unknown_is_spelled_out_in_bits_a_byte():
    whole = Measured(100 * math.log(2), 50, 50, 200)
    some = Measured(100 * math.log(2), 50, 50, 200, unknown=10, unknown_bytes=40)
    assert whole.notes() == [] and whole.bits_a_byte == pytest.approx(0.5)
    assert some.bits_a_byte == pytest.approx(0.5 + 50 * math.log2(257) / 200)
    spelled, warning = some.notes()
    assert "20.0% of the tokens are unknown to the model, and are spelled out at 8.01 bits per byte" in spelled
    assert warning.startswith("warning: 20.0% of the tokens are unknown")
    few = Measured(1.0, 1000, 1000, 4000, unknown=10, unknown_bytes=40)
    assert len(few.notes()) == 1 and "10 tokens unknown" in few.scores()[0].signature
    uncounted = Measured(1.0, 50, 50, 200, unknown=10, unknown_bytes=None)
    assert uncounted.bits_a_byte is None and "bits a byte n/a: 20.0%" in uncounted.notes()[0]
    assert "bits a byte" not in [score.metric for score in uncounted.scores()]


def test_a_small_vocabulary_of_words_does_not_look_better(tmp_path):
    """All that it says of most words is that they are unknown: told alone, that would be a better number."""
    lines = [f"word{number} and word{number * 7 % 50}\n" for number in range(50)] * 4
    path = tmp_path / "text.txt"
    path.write_text("".join(lines))
    bits = {}
    for vocab in (4, 200):
        tokenizer = Tokenizer.train("words", lines, vocab)
        corpus = Corpus.make([path], tokenizer, tmp_path / str(vocab), whole=True)
        ids = corpus.ids(0, corpus.facts.tokens)
        found = measured(counted([ids], tokenizer.size).model, corpus, told_after(tokenizer))
        bits[vocab] = found.bits_a_byte
        assert found.unknown == (400 if vocab == 4 else 0)
    assert corpus.facts.unknown_bytes == 0 and bits[4] > 5 > 3 > bits[200]


def test_text_that_spells_the_unknown_token_is_known(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the <unk> sat\nthe dög sat\n")
    tokenizer = Tokenizer.train("words", ["the sat"], 10)
    facts = Corpus.make([path], tokenizer, tmp_path / "text", whole=True).facts
    assert (facts.tokens, facts.unknown, facts.unknown_bytes) == (8, 1, 4)
    by_letter = Tokenizer.train("characters", ["the sat dg\n"], 20)
    facts = Corpus.make([path], by_letter, tmp_path / "letters", whole=True).facts
    assert (facts.unknown, facts.unknown_bytes) == (6, 7)  # < u n k > and ö


def test_windows_may_not_leave_gaps():
    with pytest.raises(UsageProblem, match="would skip tokens"):
        Measuring(8, 9)
