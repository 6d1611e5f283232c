"""Scores of labels and numbers are scikit-learn's and SciPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as theirs

from regard.errors import Problem
from regard.tasks.label_metrics import (
    accuracy,
    binary_f1,
    confusion,
    macro_f1,
    matthews,
    micro_f1,
    pearson,
    spearman,
)

labelled = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=20)
small = st.integers(-4, 4).map(float)
measured = st.lists(st.tuples(small, small), min_size=2, max_size=20)


@given(labelled)
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_labels_are_scored_as_scikit_learn_does(pairs):
    predicted, expected = map(list, zip(*pairs, strict=True))
    for ours, value in {
        accuracy: theirs.accuracy_score(expected, predicted),
        macro_f1: theirs.f1_score(expected, predicted, average="macro"),
        micro_f1: theirs.f1_score(expected, predicted, average="micro"),
        matthews: theirs.matthews_corrcoef(expected, predicted),
    }.items():
        assert ours(predicted, expected).value == pytest.approx(100 * value, abs=1e-9)
    value = theirs.f1_score(expected, predicted, average=None, labels=["a"], zero_division=0)[0]
    assert binary_f1(predicted, expected, "a").value == pytest.approx(100 * value)
    table = confusion(predicted, expected)
    assert np.array_equal(table.counts, theirs.confusion_matrix(expected, predicted, labels=table.labels))


@given(measured)
@settings(max_examples=60, deadline=None)
def test_numbers_are_scored_as_scipy_does(pairs):
    predicted, expected = map(list, zip(*pairs, strict=True))
    if len(set(predicted)) == 1 or len(set(expected)) == 1:
        assert pearson(predicted, expected).value == spearman(predicted, expected).value == 0.0
        return
    assert pearson(predicted, expected).value == pytest.approx(100 * stats.pearsonr(predicted, expected)[0])
    assert spearman(predicted, expected).value == pytest.approx(100 * stats.spearmanr(predicted, expected)[0])


def test_many_at_once():
    chance = np.random.default_rng(1)
    predicted, expected = chance.choice(list("abcde"), (2, 10_000), p=(0.5, 0.3, 0.1, 0.05, 0.05)).tolist()
    assert matthews(predicted, expected).value == pytest.approx(100 * theirs.matthews_corrcoef(expected, predicted))
    one, other = chance.normal(size=(2, 10_000)).round(2)
    assert spearman(one, other).value == pytest.approx(100 * stats.spearmanr(one, other)[0])


def test_what_was_measured_is_said():
    predicted, expected = ["yes", "no", "yes"], ["yes", "yes", "no"]
    assert str(binary_f1(predicted, expected, "yes")) == "f1 of yes 50.00 (positive:yes)"
    assert binary_f1(predicted, expected, "yes").detail == "2 expected, 2 predicted, 1 of them right"
    assert binary_f1(predicted, expected, "maybe").detail.startswith("0 expected, 0 predicted")
    assert str(macro_f1(predicted, expected)) == "f1_macro 25.00 (average:macro|labels:2)"
    assert macro_f1(predicted, expected).detail == "no 0.00, yes 50.00"
    assert accuracy(predicted, expected).detail == "1 of 3"
    assert micro_f1(predicted, expected).metric == "f1_micro"
    assert pearson([0.1] * 3, [1, 2, 3]).detail == "one side never varies"


def test_confusions_as_text():
    assert str(confusion(["10", "9", "9"], ["10", "10", "9"])) == "expected  9  10\n       9  1   0\n      10  1   1"


@pytest.mark.parametrize("metric", [accuracy, macro_f1, micro_f1, matthews, confusion, pearson, spearman])
def test_what_cannot_be_scored_is_refused(metric):
    with pytest.raises(Problem, match="2 predicted but 1 expected"):
        metric([1, 2], [1])
    with pytest.raises(Problem, match="nothing to score"):
        metric([], [])


def test_numbers_that_are_none():
    for metric in (pearson, spearman):
        with pytest.raises(Problem, match="predicted number 2 is nan"):
            metric([1.0, float("nan")], [1.0, 2.0])
