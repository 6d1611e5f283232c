"""Which pieces go on with a word, for hiding words as a whole."""

import warnings

import numpy as np
import pytest
from mixed_text import package_file

from regard.text.tokenizer import ENCODER, KINDS, Tokenizer

LINES = ["The lowest, (widest) newest lower house don't sit; größer 日本 हिन्दी!", "low wide new est er hous 12,5"] * 3


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text cut before each piece that does not continue."""
    found: list[str] = []
    for id in tokenizer.encode(text):
        if tokenizer.continues[id] and found:
            found[-1] += tokenizer.piece(id)
        else:
            found.append(tokenizer.piece(id))
    return found


def train(kind: str) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Tokenizer.train(kind, LINES, 320 if kind == "byte-bpe" else 75, special=ENCODER)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_stand_alone(kind):
    tokenizer = train(kind)
    assert tokenizer.specials == [0, 1, 2, 3, 4]
    assert tokenizer.continues.shape == (tokenizer.size,) and tokenizer.continues.dtype == np.bool_
    assert not tokenizer.continues[tokenizer.specials].any()


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "characters"])
def test_words_that_are_known_by_their_space(kind):
    assert words(train(kind), " the lowest, 12 größer") == ["▁the", "▁lowest", ",", "▁12", "▁größer"]
    assert words(train(kind), " don't sit; हिन्दी")[:4] == ["▁don", "'t", "▁sit", ";"]
    assert len(words(train(kind), " हिन्दी")) == 1


def test_words_of_wordpieces():
    tokenizer = train("wordpiece")
    assert any(tokenizer.continues[tokenizer.encode("lowest")])
    assert words(tokenizer, "the lowest, größer") == ["▁the", "▁lowest", "▁,", "▁größer"]


def test_whole_words_continue_nothing():
    assert not train("words").continues.any()


def test_bytes_of_a_character_belong_together():
    tokenizer = train("byte-bpe")
    assert len(tokenizer.encode(" ☃")) > 2 and tokenizer.continues[tokenizer.encode(" é")[1:]].all()


@pytest.mark.parametrize(
    "name, expected",
    [
        ("bert_base_uncased", ["▁the", "▁pteranodon", "▁(", "▁5°", "▁)", "▁didn", "▁'", "▁t", "▁fly", "▁."]),
        ("roberta_base", ["▁The", "▁pteranodon", "▁(5", "°", ")", "▁didn", "'t", "▁fly", "."]),
    ],
)
def test_real_vocabularies(name, expected):
    tokenizer = Tokenizer.load(package_file("llm_detector", f"assets/tokenizers/{name}_tokenizer.json"))
    assert words(tokenizer, " The pteranodon (5°) didn't fly.") == expected
    assert len(tokenizer.encode(" pteranodon")) > 1
