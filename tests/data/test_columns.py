"""What a column is for is inferred from its name and its values; where both leave a doubt, columns are listed."""

from array import array

import pytest

from regard.data.columns import Columns, ColumnValues, find_columns
from regard.data.labelled import label_table, read_labelled, read_texts
from regard.data.reading import Reading
from regard.data.table import Table
from regard.data.templates import read_pairs
from regard.errors import Problem

SICK = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
JUDGMENTS = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")


def table(columns: dict[str, list[str]], named: bool = True) -> Table:
    rows = list(zip(*columns.values(), strict=True))
    names = tuple(columns) if named else tuple(str(number) for number in range(1, len(columns) + 1))
    return Table("some.tsv", names, rows, array("q", range(2, len(rows) + 2)), named)


def sick(count: int = 400) -> dict[str, list[str]]:
    return {
        "pair_ID": [str(number) for number in range(1, count + 1)],
        "sentence_A": [f"A group of {number} kids is playing in a yard" for number in range(count)],
        "sentence_B": [f"A group of {number} boys is playing outside" for number in range(count)],
        "relatedness_score": [str(1 + (number * 7 % 125) * 0.03)[:5] for number in range(count)],
        "entailment_judgment": [JUDGMENTS[number % 3] for number in range(count)],
    }


@pytest.mark.parametrize("named", [True, False])
def test_a_judgment_is_learned_as_a_class_and_a_score_as_a_number(named):
    found = {kind: find_columns(table(sick(), named), kind, Columns()) for kind in ("pair", "regress")}
    names = SICK if named else tuple("12345")
    assert found["pair"] == Columns(names[1], names[2], names[4])
    assert found["regress"] == Columns(names[1], names[2], names[3])


def test_the_same_from_a_file(tmp_path):
    columns = sick(60)
    lines = ["\t".join(cells) for cells in [tuple(columns), *zip(*columns.values(), strict=True)]]
    (tmp_path / "SICK_train.txt").write_text("\r\n".join(lines))
    found = read_labelled(tmp_path / "SICK_train.txt", "pair")
    assert set(found.labels) == set(JUDGMENTS) and found.columns.label == "entailment_judgment"


def test_scores_alone_are_no_classes_and_the_columns_are_listed():
    columns = sick()
    del columns["entailment_judgment"]
    with pytest.raises(Problem) as refused:
        label_table(table(columns), "pair")
    told = str(refused.value)
    assert "no column looks like the label" in told and "--label" in told
    assert "as 'relatedness_score' holds, are what regress learns" in told
    assert "\n  relatedness_score: 125 different numbers, such as '1.0', '1.21', '1.42'" in told
    assert "\n  pair_ID: 400 different numbers, such as '1', '2', '3'" in told
    assert "\n  sentence_A: 400 different values, such as 'A group of 0 kids is playing i..." in told
    said = label_table(table(columns), "pair", Columns(label="relatedness_score"))
    assert len(set(said.labels)) == 125  # who says it gets it


@pytest.mark.parametrize(
    "name, values, scores, classes",
    [
        ("relatedness_score", [str(number / 10) for number in range(40)] * 3, True, False),
        ("label", [str(number / 10) for number in range(40)] * 3, True, False),
        ("rating", list("12345") * 9, False, True),
        ("score", [str(number) for number in range(101)] * 3, True, False),
        ("label", [str(number) for number in range(77)] * 3, False, True),  # intents by number
        ("label", [str(number * 7) for number in range(77)] * 3, False, True),  # some of them, as in a small file
        ("year", [str(number) for number in range(1900, 2000)] * 3, True, False),
        ("id", [str(number) for number in range(300)], False, False),
        ("text", [f"text {number}" for number in range(300)], False, False),
        ("verdict", ["yes", "no"] * 20, False, True),
    ],
)
def test_what_a_column_holds(name, values, scores, classes):
    found = ColumnValues(name, values)
    assert (found.holds_scores, found.holds_classes) == (scores, classes)


def test_a_label_without_a_telling_name_is_the_only_column_of_few_values():
    columns = sick()
    columns["verdict"] = columns.pop("entailment_judgment")
    assert find_columns(table(columns), "pair", Columns()).label == "verdict"
    columns["source"] = ["web", "news"] * 200
    with pytest.raises(Problem, match=r"(?s)no column looks like the label.*\n  verdict: 3 different values, such as"):
        label_table(table(columns), "pair")


def test_without_names_two_columns_of_as_many_values_are_a_doubt():
    columns = {"text": [f"some words {n}" for n in range(40)], "a": ["x", "y"] * 20, "b": ["u"] * 20 + ["v"] * 20}
    with pytest.raises(Problem, match="no column looks like the label"):
        label_table(table(columns, named=False), "classify")
    assert find_columns(table(columns, named=False), "classify", Columns(label=2)).label == "2"


def test_texts_alone_need_no_label(tmp_path):
    (tmp_path / "a.tsv").write_text("index\tsentence\n0\tfine\n1\tbad\n")
    assert read_texts(tmp_path / "a.tsv", "classify") == [("fine",), ("bad",)]


def test_scores_can_be_written_out(tmp_path):
    columns = {name: cells for name, cells in sick(60).items() if name != "entailment_judgment"}
    lines = ["\t".join(cells) for cells in [tuple(columns), *zip(*columns.values(), strict=True)]]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    pairs = read_pairs(tmp_path / "a.tsv", "stsb: {text} {second}", Reading())
    assert pairs.targets == columns["relatedness_score"]
