"""The vocabulary of words as annotated corpora have them."""

import pytest

from regard.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The U.S. didn't go, did it?", "The U.S. did n't go , did it ?"),
        ("J. O'Brien's 10-year-old can’t", "J. O'Brien 's 10-year-old ca n’t"),
        ('("AT&T fell 3.5% to $1,000")', '( " AT&T fell 3.5 % to $ 1,000 " )'),
        ("On 1996-08-22 -- they'LL see...", "On 1996-08-22 -- they 'LL see ..."),
        ("Revolution.Whilst Nagorno-Karabakh", "Revolution . Whilst Nagorno-Karabakh"),
        ("naïve cafe\u0301 東京", "naïve café 東京"),
    ],
)
def test_punctuation_stands_alone(text, words):
    tokenizer = Tokenizer.train("treebank", [text], 100)
    assert tokenizer.decode(tokenizer.encode(text)) == words
    assert tokenizer.encode_words(words.split())[0] == tokenizer.encode(text)  # cut again, nothing changes
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.encode(text) == tokenizer.encode(text) and tokenizer.unknown not in tokenizer.encode(text)
