"""Rows of tables as pairs of texts: which columns, what is left out, what is refused."""

from __future__ import annotations

import json

import pytest

from regard.data.reading import Reading
from regard.data.templates import read_pairs
from regard.errors import Problem, UsageProblem

REVIEWS = 'sentence,label\na fine film,positive\n"so, so dull",negative\n'
RTE = "premise\thypothesis\tlabel\nIt rains.\tIt is wet.\tentailment\nIt rains.\tIt is dry.\tnot_entailment\n"


def saved(folder, name: str, text: str):
    (folder / name).write_text(text)
    return folder / name


def test_a_template_goes_around_the_text(tmp_path):
    pairs = read_pairs(saved(tmp_path, "reviews.csv", REVIEWS), "sst2 sentence: {text}")
    assert pairs.sources == ["sst2 sentence: a fine film", "sst2 sentence: so, so dull"]
    assert pairs.targets == ["positive", "negative"]
    assert read_pairs(tmp_path / "reviews.csv").sources == ["a fine film", "so, so dull"]


@pytest.mark.parametrize(
    "template", ["rte {premise} / {hypothesis}", "rte {text} / {second}", "rte {text} / {hypothesis}"]
)
def test_columns_go_by_their_names_or_by_what_they_are(tmp_path, template):
    pairs = read_pairs(saved(tmp_path, "rte.tsv", RTE), template)
    assert pairs.sources == ["rte It rains. / It is wet.", "rte It rains. / It is dry."]
    assert pairs.targets == ["entailment", "not_entailment"]


def test_columns_may_be_said(tmp_path):
    rows = [{"x": "two and two", "y": "four", "label": "sum"}, {"x": "{y} and\none", "y": "a {brace}", "label": "sum"}]
    path = saved(tmp_path, "sums.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    pairs = read_pairs(path, "{label} of {x}", Reading(label="y"))
    assert pairs.sources == ["sum of two and two", "sum of {y} and one"]  # a cell is text, whatever it holds
    assert pairs.targets == ["four", "a {brace}"]


def test_sources_and_targets_are_known_by_their_names(tmp_path):
    pairs = read_pairs(saved(tmp_path, "pairs.tsv", "id\ttarget\tsource\n1\tein hund\ta dog\n2\tein mann\ta man\n"))
    assert pairs.sources == ["a dog", "a man"] and pairs.targets == ["ein hund", "ein mann"]


def test_rows_without_a_label_are_left_out_and_told_of(tmp_path):
    path = saved(tmp_path, "reviews.csv", REVIEWS + "a film,-1\n")
    with pytest.warns(UserWarning, match="1 of 3 rows are left out"):
        assert len(read_pairs(path)) == 2
    assert len(read_pairs(path, reading=Reading(unlabelled=()))) == 3
    blank = saved(tmp_path, "blank.csv", REVIEWS + "a film,\n")
    with pytest.raises(Problem, match=r"blank\.csv, line 4: what is to be written, in column 'label', is blank"):
        read_pairs(blank)
    with pytest.warns(UserWarning, match="1 of 3 rows are left out"):
        assert len(read_pairs(blank, reading=Reading(skip_bad=1))) == 2
    with pytest.raises(Problem, match="none of its 1 rows has a label"):
        read_pairs(saved(tmp_path, "none.csv", "sentence,label\na film,-1\n"))


def test_what_cannot_be_read_is_told(tmp_path):
    path = saved(tmp_path, "rte.tsv", RTE)
    with pytest.raises(UsageProblem, match="no column 'premis', which the template names; did you mean 'premise'"):
        read_pairs(path, "rte {premis}")
    with pytest.raises(UsageProblem, match="a template names no column"):
        read_pairs(path, "rte")
    with pytest.raises(UsageProblem, match="no column 'gold'"):
        read_pairs(path, reading=Reading(label="gold"))
    with pytest.raises(Problem, match="no column looks like what is to be written"):
        read_pairs(saved(tmp_path, "texts.csv", "sentence,when\na film,monday\n"))
