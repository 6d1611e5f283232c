"""Text as the ids of its words."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest

from regard.data.words import Cut, read_words
from regard.errors import Problem, UsageProblem

TEXT = "The cat's mat. The dog_sat,\n\nand THE cat's   l’été 3 times!\nthe end\n"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.mark.parametrize(
    ("cut", "words"),
    [(Cut(), "the cat's mat the dog sat"), (Cut(lowercase=False), "The cat's mat The dog sat"),
     (Cut(spaces=True), "the cat's mat. the dog_sat,")],
)  # fmt: skip
def test_words_are_letters_and_digits_or_what_spaces_separate(cut, words):
    assert " ".join(cut.words(TEXT.splitlines()[0])) == words


def test_marks_are_parts_of_letters():
    """Accents written apart are joined with their letters, and vowel signs do not end a word."""
    assert Cut().words("Cafe\u0301 café") == ["café", "café"]
    assert Cut().words("हिन्दी में।") == ["हिन्दी", "में"]


def test_words_are_numbered_by_falling_frequency_and_rare_ones_left_out(file):
    text = read_words([file], Cut(least=2))
    assert text.words == ["the", "cat's"] and text.counts.tolist() == [4, 2] and text.total == 14
    assert [text.lines[row].tolist() for row in range(3)] == [[0, 1, 0], [0, 1], [0]]
    every = read_words([file], Cut(least=1))
    lines = [[every.words[id] for id in every.lines[row]] for row in range(3)]
    assert lines == [Cut().words(line) for line in TEXT.splitlines() if line]
    assert every.counts.tolist() == sorted(every.counts, reverse=True) and every.counts.sum() == every.total
    few = read_words([file], Cut(least=1, most=3))
    assert few.words == every.words[:3] and few.lines.ids.max() == 2


def test_packed_text_and_json_lines_are_read_too(file, tmp_path):
    (tmp_path / "packed.xz").write_bytes(lzma.compress(TEXT.encode()))
    (tmp_path / "lines.jsonl").write_text(json.dumps({"text": TEXT}))
    plain = read_words([file], Cut(least=1))
    for name in ("packed.xz", "lines.jsonl"):
        other = read_words([tmp_path / name], Cut(least=1))
        assert other.words == plain.words and np.array_equal(other.lines.ids, plain.lines.ids)
    both = read_words([file, tmp_path / "packed.xz"], Cut(least=1))
    assert both.counts.tolist() == (2 * plain.counts).tolist()


def test_text_without_words_is_told(tmp_path, file):
    (tmp_path / "blank").write_text("\n ... \n")
    with pytest.raises(Problem, match="there is no word in the text"):
        read_words([tmp_path / "blank"], Cut())
    with pytest.raises(Problem, match=r"of 10 words none occurs 5 times, the most frequent 4 times.*--min-count"):
        read_words([file], Cut())
    with pytest.raises(UsageProblem, match="least=0"):
        Cut(least=0)
