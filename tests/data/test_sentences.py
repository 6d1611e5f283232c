"""Paragraphs are cut where sentences end, nothing is lost, and no text takes long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import sentences as sentences_module
from regard.data.sentences import sentences


@pytest.mark.parametrize(
    "parts",
    [
        ["One.", " Two!", " Three? no.", " 4 of them…", "  “Five.”", " (Six.)", " Seven"],
        ["“How goes it, Frank?", " Down first, as usual.”", " “The early bird.”"],
        ["He saw Mr. Smith and J. K. Rowling vs. Dr. Who."],
        ["Was it I?", " No.", " It was I.", " Then"],
        ["It cost $3.50 at example.com, e.g. here.", " 'Yes'", ""],
        ["これは文です。", "「そうか。」", "次！", "ABC"],
        ["Это было. и будет.", " Да?", " Нет"],
        ["यह है।", " वह है।"],
        ["no end"],
        ["...!?", " End"],
    ],
)
def test_where_sentences_end(parts):
    assert sentences("".join(parts)) == [part for part in parts if part]


@given(st.text('abAB .!?"”)1。\n\u2028'))
def test_the_parts_are_the_paragraph(paragraph):
    found = sentences(paragraph)
    assert "".join(found) == paragraph and all(found)


@pytest.mark.parametrize("unit", [". ", "! A", '."', '."""" ', ".   ", "。", "A", " ", ". a", "Mr. A"])
def test_time_is_linear(unit):
    begin = time.process_time()
    sentences(unit * 200_000)
    sentences(unit + " " * 200_000 + '"' * 200_000 + "." * 200_000)
    assert time.process_time() - begin < 5


def test_an_endless_sentence_is_cut(monkeypatch):
    monkeypatch.setattr(sentences_module, "LONGEST", 10)
    assert [len(part) for part in sentences("x" * 25 + ". Abc.")] == [10, 10, 6, 5]
