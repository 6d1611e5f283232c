"""Examples with several labels: JSON lists, separators, columns of 0 and 1; and what is refused as unclear."""

import json
from pathlib import Path

import pytest

from regard.data.multi_labelled import holds_label_lists, read_multi_labelled
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem

SETS = [("insult", "toxic"), (), ("toxic",)]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def json_lines(path: Path, *labels: object) -> Path:
    return write(path, *(json.dumps({"text": f"text {n}", "labels": given}) for n, given in enumerate(labels)))


FORMS = {
    "lists": (("a.jsonl", '{"text": "x", "labels": ["toxic", "insult"]}', '{"text": "y", "labels": []}',
               '{"text": "z", "labels": ["toxic", "toxic"]}'), Reading()),
    "lists in cells": (("a.tsv", "text\tlabel", 'x\t["toxic", "insult"]', "y\t[]", 'z\t["toxic"]'), Reading()),
    "separator": (("a.csv", "text,label", '"x","toxic, insult"', "y,", "z,toxic"), Reading(label_separator=",")),
    "another": (("a.tsv", "text\tlabel", "x\tinsult | toxic", "y\t", "z\ttoxic|"), Reading(label_separator="|")),
    "columns": (("a.csv", "id,text,toxic,insult", "1,x,1,1", "2,y,0,0", "3,z,1.0,false"),
                Reading(label_columns=("toxic", "insult"))),
    "numbered columns": (("a.csv", "id,text,toxic,insult", "1,x,1,1", "2,y,0,0", "3,z,1,0"),
                         Reading(label_columns=("3", "4"))),
    "map": (("a.tsv", "text\tlabel", "x\t1;2", "y\t", "z\t1"),
            Reading(label_separator=";", label_map=("1=toxic", "2=insult"))),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(tmp_path, form):
    (name, *lines), reading = FORMS[form]
    found = read_multi_labelled(write(tmp_path / name, *lines), reading)
    assert found.label_sets == SETS and [text for (text,) in found.texts] == ["x", "y", "z"]
    assert found.lines()[-1] == "multi-label: toxic (2), insult (1); 1 examples have none"


def test_lists_alone_are_inferred(tmp_path):
    assert holds_label_lists(json_lines(tmp_path / "a.jsonl", ["a"], []), Reading())
    for name, *labels in (("b.jsonl", ["a"], "b"), ("c.jsonl", "a,b"), ("d.jsonl", [["a"]]), ("e.jsonl", "[a")):
        assert not holds_label_lists(json_lines(tmp_path / name, *labels), Reading())
    assert not holds_label_lists(tmp_path / "missing.jsonl", Reading())


def test_what_is_unclear_is_refused(tmp_path):
    unclear = json_lines(tmp_path / "a.jsonl", "toxic", "toxic;insult")
    with pytest.raises(Problem, match=r"line 2: 'toxic;insult' may be one label or several.*--label-separator ';'"):
        read_multi_labelled(unclear, Reading())
    assert read_multi_labelled(unclear, Reading(label_separator="")).label_sets[1] == ("toxic;insult",)
    mixed = json_lines(tmp_path / "b.jsonl", ["toxic"], "insult")
    with pytest.raises(Problem, match=r"line 2: the labels 'insult' are no JSON list"):
        read_multi_labelled(mixed, Reading())
    share = write(tmp_path / "c.csv", "text,toxic", "x,0.83")
    with pytest.raises(Problem, match=r"line 2: '0\.83', in column 'toxic', is neither 0 nor 1"):
        read_multi_labelled(share, Reading(label_columns=("toxic",)))
    with pytest.raises(UsageProblem, match="no column 'txic'; did you mean 'toxic'"):
        read_multi_labelled(share, Reading(label_columns=("txic",)))
    with pytest.raises(UsageProblem, match="leave out the label's column"):
        read_multi_labelled(share, Reading(label_columns=("toxic",), label="text"))


def test_rows_that_nobody_labelled_are_left_out(tmp_path):
    unscored = write(tmp_path / "a.csv", "text,toxic,insult", "x,1,0", "y,-1,-1")
    found = read_multi_labelled(unscored, Reading(label_columns=("toxic", "insult")))
    assert (found.label_sets, found.unlabelled) == ([("toxic",)], 1)
    null = json_lines(tmp_path / "b.jsonl", ["a"], None)
    with pytest.raises(Problem, match=r"line 2: the label, in column 'labels', is blank"):
        read_multi_labelled(null, Reading())
