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


def test_windows_may_not_leave_gaps():
    with pytest.raises(UsageProblem, match="would skip tokens"):
        Measuring(8, 9)
