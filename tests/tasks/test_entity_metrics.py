"""Entities are scored as conlleval and seqeval do, whatever the scheme."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tagged import read_tagged, to_iob2
from regard.errors import Problem
from regard.tasks.entity_metrics import Found, entity_f1, found_by_kind, tag_accuracy

TAGS = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("PER", "LOC"))]
sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=8), min_size=1, max_size=4
)


@given(sentences)
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_any_tags_are_scored_as_seqeval_does(pairs):
    theirs = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    predicted, expected = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    assert tag_accuracy(predicted, expected).value == pytest.approx(100 * theirs.accuracy_score(expected, predicted))
    kinds = found_by_kind(predicted, expected)
    if not any(found.expected for found in kinds.values()):
        with pytest.raises(Problem, match="no entity"):
            entity_f1(predicted, expected)
        return
    assert entity_f1(predicted, expected).value == pytest.approx(100 * theirs.f1_score(expected, predicted))
    report = theirs.classification_report(expected, predicted, output_dict=True)
    for kind, found in kinds.items():
        assert found.expected == report[kind]["support"]
        assert (found.precision or 0) == pytest.approx(100 * report[kind]["precision"])
        assert (found.recall or 0) == pytest.approx(100 * report[kind]["recall"])
        assert (found.f1 or 0) == pytest.approx(100 * report[kind]["f1-score"])


def test_a_case_by_hand():
    expected = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["B-ORG", "I-LOC"]]
    assert found_by_kind(predicted, expected) == {"LOC": Found(2, 2, 2), "ORG": Found(0, 1, 0), "PER": Found(1, 1, 0)}
    score = entity_f1(predicted, expected)
    assert score.value == pytest.approx(100 * 2 * 2 / (3 + 4)) and score.signature == "average:micro|rules:conlleval"
    assert score.detail == "precision 50.00, recall 66.67, F1 57.14; 3 expected, 4 predicted, 2 right"
    assert tag_accuracy(predicted, expected).detail == "3 of 6"


def test_a_share_of_nothing_is_not_a_number():
    assert str(Found(0, 1, 0)) == "precision 0.00, recall none, F1 none; 0 expected, 1 predicted, 0 right"
    assert Found(1, 0, 0).precision is None and Found(1, 0, 0).f1 == 0.0
    with pytest.raises(Problem, match="the expected tags hold no entity"):
        entity_f1([["B-PER"]], [["O"]])


@pytest.mark.parametrize("metric", [entity_f1, found_by_kind, tag_accuracy])
@pytest.mark.parametrize(
    "predicted, expected, says",
    [
        ([["O"]], [["O"], ["O"]], "1 sentences predicted but 2 expected"),
        ([["O"], ["O"]], [["O"], ["O", "O"]], "sentence 2 has 2 words but 1 predicted tags"),
        ([], [], "nothing to score"),
        ([[]], [[]], "nothing to score"),
    ],
)
def test_what_cannot_be_scored_is_refused(metric, predicted, expected, says):
    with pytest.raises(Problem, match=says):
        metric(predicted, expected)


def test_real_tags_in_two_schemes():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    theirs = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")
    found = read_tagged(Path(os.environ["REGARD_DATA"]) / "conll2003/eng.testb.xz")
    expected = to_iob2(found).tags
    shorter = [tags[:-3] + ["O"] * len(tags[-3:]) for tags in expected]  # as if the end of each sentence were not read
    assert entity_f1(found.tags, expected).value == 100.0
    assert entity_f1(shorter, expected).value == pytest.approx(100 * theirs.f1_score(expected, shorter))
