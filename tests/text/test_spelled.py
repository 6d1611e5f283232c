"""Whole words, of which those outside the vocabulary have ids beyond it."""

import numpy as np
import pytest

from regard.errors import UsageProblem
from regard.layers.characters import special_spelling, spelled_words
from regard.text.spelled import Spelled
from regard.text.tokenizer import Tokenizer

LINES = ["the cat sat on the mat", "the dog sat"] * 2


@pytest.fixture
def spelled() -> Spelled:
    return Spelled(Tokenizer.train("words", LINES, 50), 12)


def test_known_words_have_the_tokenizers_ids_and_others_their_own(spelled):
    size = spelled.size
    assert spelled.encode("the cat sat") == spelled.tokenizer.encode("the cat sat")
    assert spelled.encode_batch(["the axolotl", "Axolotl axolotl the"]) == [
        [spelled.tokenizer.encode("the")[0], size],
        [size + 1, size, spelled.tokenizer.encode("the")[0]],
    ]
    assert spelled.piece(size) == "▁axolotl" and spelled.piece(3) == spelled.tokenizer.piece(3)


def test_the_table_spells_every_word_that_has_an_id(spelled):
    the = spelled.tokenizer.encode("the")[0]
    assert len(spelled.table()) == spelled.size
    assert np.array_equal(spelled.table()[[the]], spelled_words(["the"], 12))
    ids = spelled.encode("quokka wombat")
    spelled.encode("quokka numbat")
    assert np.array_equal(spelled.table()[ids], spelled_words(["quokka", "wombat"], 12))
    assert len(spelled.table()) == spelled.size + 3
    for number, id in enumerate(spelled.tokenizer.specials):
        assert spelled.table()[id].tolist() == special_spelling(number, 12)


def test_words_that_are_given_apart(spelled):
    ids, owners = spelled.encode_words(["the", "", "axolotl", "two words"])
    assert owners == [0, 2, 3, 3] and ids[1:] == [spelled.size, spelled.size + 1, spelled.size + 2]


def test_text_in_which_a_word_was_left_out_stays_so(spelled):
    """As in the Penn Treebank's."""
    assert spelled.encode("the <unk> sat")[1] == spelled.tokenizer.unknown
    assert spelled.encode("the </s> sat")[1] == spelled.tokenizer.unknown  # text that spells it is text


def test_lower_case_is_that_of_the_vocabulary():
    spelled = Spelled(Tokenizer.train("words", LINES, 50, lowercase=True), 12)
    assert spelled.encode("Axolotl")[0] == spelled.encode("axolotl")[0] == spelled.size


def test_pieces_are_no_words():
    with pytest.raises(UsageProblem, match="kind words"):
        Spelled(Tokenizer.train("byte-bpe", LINES, 270), 12)
