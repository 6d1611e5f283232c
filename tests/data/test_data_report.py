"""What will be learned is said before training: labels, the majority share, duplicates."""

import os
from array import array
from pathlib import Path

import pytest

from regard.data.columns import Columns
from regard.data.labelled import Labelled, read_labelled
from regard.data.questions import Question, Questions
from regard.data.report import answer_lines, duplicate_lines, label_line
from regard.data.tagged import Tagged


def labelled(texts: list[str], labels: list[str]) -> Labelled:
    return Labelled("some.tsv", Columns("1", None, "2"), [(t,) for t in texts], labels, array("q", range(len(texts))))


def test_labels_with_their_counts_and_the_majority_share():
    assert answer_lines(labelled(list("abcd"), ["pos", "neg", "pos", "pos"])) == [
        "labels: pos 3, neg 1; majority share 75.0% (the accuracy of always answering 'pos')"
    ]
    many = label_line(str(n) for n in range(77))
    assert many.endswith(", and 57 more; majority share 1.3% (the accuracy of always answering '0')")


def test_numbers_tags_and_questions():
    told = answer_lines(labelled(list("abcd"), ["1", "2.5", "2.5", "4"]), numeric=True)
    assert told == ["numbers: 1 to 4, mean 2.5, standard deviation 1.061 (the error of always answering the mean)"]
    tagged = Tagged("some", [["a", "b", "c"]], [["B-PER", "I-PER", "O"]], array("q", [1]), "IOB2", 0)
    assert answer_lines(tagged)[0] == "entities: PER 1"
    assert answer_lines(tagged)[1].startswith("tags: B-PER 1, I-PER 1, O 1; majority share 33.3%")
    asked = [Question("1", "", "who ?", "so", (("so", 0),), False), Question("2", "", "what ?", "so", (), True)]
    assert answer_lines(Questions("some", asked, {})) == [
        "questions: an answer 1, no answer 1; majority share 50.0% (the accuracy of always answering 'an answer')"
    ]


def test_duplicates_within_and_between_files():
    train = labelled(["A  film", "b", "a film", "d"], ["1", "0", "0", "1"])
    dev = labelled(["a FILM ", "B", "c"], ["1", "1", "1"])
    assert list(duplicate_lines({"train": train, "dev": dev, "test": None})) == [
        "duplicates: train 1 of 4 (1 of its texts with different answers), dev 0 of 3",
        "warning: 2 of 3 examples of dev (66.7%) are in train too, 1 with the same answer: scores on dev may flatter",
    ]
    test = labelled(["c"], ["1"])
    found = list(duplicate_lines({"train": train, "dev": dev, "test": test}))
    assert found[-1].startswith("warning: 1 of 1 examples of test (100.0%) are in dev too") and len(found) == 3


def test_a_real_set():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    found = read_labelled(Path(os.environ["REGARD_DATA"]) / "sst2/dev.tsv", "classify")
    assert answer_lines(found) == ["labels: 1 444, 0 428; majority share 50.9% (the accuracy of always answering '1')"]
