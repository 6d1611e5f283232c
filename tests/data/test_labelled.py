"""Columns are found by their names or contents, and labels keep their ids; real sets are read as they are."""

import os
from array import array
from pathlib import Path

import pytest

from regard.data.labelled import (
    Columns,
    Labelled,
    LabelMap,
    duplicates,
    label_table,
    numbers,
    overlap,
    read_labelled,
    read_texts,
    right_choices,
)
from regard.data.table import beside, read_table
from regard.errors import Problem, UsageProblem


def write(folder, name: str, text: str):
    path = folder / name
    path.write_text(text)
    return path


def examples(texts: list[tuple[str, ...]], labels: list[str]) -> Labelled:
    return Labelled("some", Columns(), texts, labels, array("q", range(1, len(labels) + 1)))


@pytest.mark.parametrize(
    "kind, header, expected",
    [
        ("classify", "sentence,label", Columns("sentence", None, "label")),
        ("classify", "id,rating,label,text", Columns("text", None, "label")),
        ("classify", "Review Text,Review,Sentiment", Columns("Review", None, "Sentiment")),
        ("regress", "id,rating,label,text", Columns("text", None, "rating")),
        ("regress", "label,score,sentence1,sentence2", Columns("sentence1", "sentence2", "score")),
        ("pair", "index,question,sentence,label", Columns("question", "sentence", "label")),
        ("pair", "label1,gold_label,premise,hypothesis", Columns("premise", "hypothesis", "gold_label")),
        ("pair", "qid1,question1,question2,is_duplicate", Columns("question1", "question2", "is_duplicate")),
        ("choose", "startphrase,ending1,ending0,label", Columns("startphrase", None, "label", ("ending0", "ending1"))),
        ("choose", "premise,choice1,choice2,question,label", Columns("premise", None, "label", ("choice1", "choice2"))),
        ("choose", "question,choices,answerKey", Columns("question", None, "answerKey", ("choices",))),
    ],
)
def test_columns_by_name(tmp_path, kind, header, expected):
    row = ",".join('"[""a"", ""b""]"' if name == "choices" else "0" for name in header.split(","))
    path = write(tmp_path, "a.csv", f"{header}\n{row}\n")
    assert read_labelled(path, kind).columns == expected


@pytest.mark.parametrize(
    "kind, rows, expected",
    [
        ("classify", ["gj04\t1\t\tThe sailors rode.", "clc\t0\t*\tIt rode it.", "abc\t1\t\tBy it."], ("4", None, "2")),
        ("classify", ["all\t1\ta fine film", "all\t0\ta bad one", "all\t0\ta worse one"], ("3", None, "2")),
        ("classify", ["a fine film\t1", "a bad one\t0", "a worse one\t0"], ("1", None, "2")),
        ("classify", ["World\ta fine day", "Sports\ta bad one", "World\ta worse one"], ("2", None, "1")),
        (
            "pair",
            ["1\t7\tHow is it ?\tWho is it ?\t0", "2\t8\tIs it so ?\tHow so ?\t1", "3\t9\tIs it ?\tIs he it ?\t1"],
            ("3", "4", "5"),
        ),
        ("regress", ["0024\t2.5\ta girl is here\ta girl is", "0033\t5.0\ta man\ta man is here"], ("3", "4", "2")),
        ("regress", ["12\ta girl is here\tx", "7\ta man\tx"], ("2", None, "1")),
    ],
)
def test_columns_by_contents(tmp_path, kind, rows, expected):
    table = read_table(write(tmp_path, "a.tsv", "\n".join(rows)), header=False)
    assert label_table(table, kind).columns == Columns(*expected)


def test_columns_by_contents_leave_those_that_were_said(tmp_path):
    table = read_table(write(tmp_path, "a.tsv", "a long text here\tsome words\tx\n" * 2), header=False)
    assert label_table(table, "pair", Columns(text=2)).columns == Columns("2", "1", "3")
    assert label_table(table, "classify", Columns(label="1")).columns == Columns("2", None, "1")


def test_columns_that_are_said(tmp_path):
    path = write(tmp_path, "a.csv", "text,other,label\nA,B,0\n")
    assert read_labelled(path, "classify", Columns(text="other")).texts == [("B",)]
    assert read_labelled(path, "classify", Columns(text=2, label="1")).columns == Columns("other", None, "text")
    assert str(read_labelled(path, "classify").columns) == "text: column 'text', label: column 'label'"
    with pytest.raises(UsageProblem, match=r"a\.csv has no column 'lable'; did you mean 'label'\?"):
        read_labelled(path, "classify", Columns(label="lable"))
    for number in (0, 4):
        with pytest.raises(UsageProblem, match=f"no column {number}; there are: label, other, text"):
            read_labelled(path, "classify", Columns(label=number))
    with pytest.raises(UsageProblem, match="column 'label' cannot be both text and label"):
        read_labelled(path, "classify", Columns(text="label", label="label"))
    with pytest.raises(UsageProblem, match="second='other': classify reads one text"):
        read_labelled(path, "classify", Columns(second="other"))


@pytest.mark.parametrize(
    "kind, header, says",
    [
        ("classify", "phrase,label", "no column looks like the text; there are: phrase, label"),
        ("classify", "index,sentence", "no column looks like the label; there are: index, sentence"),
        ("pair", "sentence,label", "no column looks like the second"),
        ("choose", "question,label", "no column looks like the choices"),
    ],
)
def test_columns_that_are_not_there(tmp_path, kind, header, says):
    with pytest.raises(Problem, match=says):
        read_labelled(write(tmp_path, "a.csv", f"{header}\n0,1\n"), kind)


def test_rows_that_give_no_example(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\ngood, 1\n  ,0\nbad,0\nwhat,-1\nhow,-1\n")
    found = read_labelled(path, "classify")
    assert (found.texts, found.labels) == ([("good",), ("bad",)], ["1", "0"])
    assert (found.unlabelled, found.empty, found.skipped) == (2, 1, 0)
    assert found.place(1) == f"{path}, line 4"
    assert "left out: 2 without a label, 1 with a blank text, 0 bad" in found.lines()[0]
    assert found.lines()[-1].startswith("warning: 2 rows are left out as unlabelled")
    assert len(read_labelled(path, "classify", unlabelled=())) == 4
    assert numbers(read_labelled(path, "regress"))[-1] == -1.0
    assert len(read_texts(path, "classify")) == 5
    with pytest.raises(Problem, match="no example: of 1 rows 1 are unlabelled"):
        read_labelled(write(tmp_path, "b.csv", "text,label\na,-1\n"), "classify")


def test_a_blank_label_is_a_bad_row(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\ngood,1\nbad, \nworse\nfine,0\n")
    with pytest.raises(Problem, match=r"a\.csv, line 3: the label, in column 'label', is blank.*now 0"):
        label_table(read_table(path, skip_bad=1), "classify")
    with pytest.raises(Problem, match="line 3: the label"):
        read_labelled(path, "classify", skip_bad=1)
    found = read_labelled(path, "classify", skip_bad=2)
    assert (len(found), found.skipped) == (2, 2)


def test_label_maps_are_sorted_and_do_not_depend_on_order():
    assert LabelMap.of(["10", "9", "-1", "2.5"]).names == ("-1", "2.5", "9", "10")
    assert LabelMap.of(["b", "nan", "a", "2", "10", "inf"]).names == ("2", "10", "a", "b", "inf", "nan")
    assert LabelMap.of("cab") == LabelMap.of("bcaab") and len(LabelMap.of("cab")) == 3


def test_a_label_that_was_never_seen():
    labels = LabelMap.of(["entailment", "neutral"])
    data = examples([("a",), ("b",)], ["neutral", "entailmnet"])
    assert labels.ids(["neutral", "entailment"], data.place) == [1, 0]
    with pytest.raises(Problem, match=r"some, line 2: the label 'entailmnet' did not .* did you mean 'entailment'\?"):
        labels.ids(data.labels, data.place)


def test_one_class_is_warned_of():
    assert "all examples have the label '1'" in examples([("a",), ("b",)], ["1", "1"]).warnings()[0]
    assert examples([("a",), ("b",)], ["1", "0"]).warnings() == []


@pytest.mark.parametrize("label", ["nan", "inf", "-Infinity", "five", "1,5"])
def test_numbers_are_finite(label):
    assert numbers(examples([("a",)] * 3, ["1", "-2.5", "1e3"])) == [1.0, -2.5, 1000.0]
    with pytest.raises(Problem, match=f"some, line 2: the label '{label}' is no finite number"):
        numbers(examples([("a",)] * 2, ["1", label]))


@pytest.mark.parametrize(
    "labels, expected",
    [(["0", "2"], [0, 2]), (["1", "3"], [0, 2]), (["1", "2"], [1, 2]), (["A", "C"], [0, 2])],
)
def test_choices_count_from_nought_or_one(labels, expected):
    assert right_choices(examples([("so", "a", "b", "c")] * 2, labels)) == expected


@pytest.mark.parametrize("labels", [["0", "3"], ["1", "4"], ["0", "-2"], ["0", "x"], ["A", "D"]])
def test_choices_that_there_are_not(labels):
    with pytest.raises(Problem, match=f"some, line 2: the label '{labels[1]}' is none of 3 choices"):
        right_choices(examples([("so", "a", "b", "c")] * 2, labels))


def test_choices_in_a_list(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"question": "so", "choices": ["a", "b"], "answer": 1}')
    assert read_labelled(path, "choose").texts == [("so", "a", "b")]
    for choices in ('"ab"', '["a"]', '["a", 1]'):
        path = write(tmp_path, "b.jsonl", f'{{"question": "so", "choices": {choices}, "answer": 1}}')
        with pytest.raises(Problem, match=r"b\.jsonl, line 1: .*(no list of two or more texts|not valid JSON)"):
            read_labelled(path, "choose")


def test_overlap_and_duplicates():
    train = examples([("A  film",), ("b",), ("a film",)], ["1", "0", "0"])
    other = examples([("a FILM ",), ("B",), ("c",)], ["1", "1", "1"])
    found = overlap(train, other)
    assert (found.examples, found.texts, found.both) == (3, 2, 1)
    assert str(found) == "2 of 3 examples (66.7%), 1 with the same label"
    assert duplicates(train) == 1 and duplicates(other) == 0


REAL = [  # file, kind, examples, columns, labels
    ("sst2/train.tsv.xz", "classify", 67349, ("sentence", None, "label"), ("0", "1")),
    ("sst2/dev.tsv", "classify", 872, ("sentence", None, "label"), ("0", "1")),
    ("sst2/sentence-level/train.tsv", "classify", 6920, ("1", None, "2"), ("0", "1")),
    ("glue/CoLA/train.tsv.xz", "classify", 8551, ("4", None, "2"), ("0", "1")),
    ("glue/CoLA/dev.tsv", "classify", 1043, ("4", None, "2"), ("0", "1")),
    ("glue/CoLA/original/out_of_domain_dev.tsv", "classify", 516, ("4", None, "2"), ("0", "1")),
    ("glue/MRPC/train.tsv.xz", "pair", 3667, ("#1 String", "#2 String", "Quality"), ("0", "1")),
    ("glue/MRPC/msr_paraphrase_test.txt.xz", "pair", 1725, ("#1 String", "#2 String", "Quality"), ("0", "1")),
    ("glue/RTE/train.tsv.xz", "pair", 2490, ("sentence1", "sentence2", "label"), ("entailment", "not_entailment")),
    ("glue/WNLI/dev.tsv", "pair", 71, ("sentence1", "sentence2", "label"), ("0", "1")),
    ("glue/QNLI/dev.tsv.xz", "pair", 5463, ("question", "sentence", "label"), ("entailment", "not_entailment")),
    ("agnews-partial/test.tsv.xz", "classify", 7600, ("1", None, "2"), ("Business", "Sci/Tech", "Sports", "World")),
    ("davidson-hate-speech/labeled_data.csv.xz", "classify", 24783, ("tweet", None, "class"), ("0", "1", "2")),
    ("imdb/test.jsonl.xz", "classify", 25000, ("text", None, "label"), ("0", "1")),
]


@pytest.fixture
def data() -> Path:
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    return Path(os.environ["REGARD_DATA"])


@pytest.mark.parametrize("name, kind, count, columns, labels", REAL, ids=[row[0] for row in REAL])
def test_real_sets_are_read_as_they_are(data, name, kind, count, columns, labels):
    found = read_labelled(data / name, kind)
    assert len(found) == count and found.columns == Columns(*columns)
    assert LabelMap.of(found.labels).names == labels and not found.warnings()
    assert (found.unlabelled, found.empty, found.skipped) == (0, 0, 0)


def test_real_numbers(data):
    found = read_labelled(data / "glue/STS-B/train.tsv.xz", "regress")
    assert found.columns == Columns("sentence1", "sentence2", "score")
    assert len(found) == 5749 and (min(numbers(found)), max(numbers(found))) == (0.0, 5.0)
    original = read_labelled(data / "glue/STS-B/original/sts-test.tsv", "regress", skip_bad=600)
    assert original.columns == Columns("6", "7", "5") and len(original) + original.skipped == 1379


def test_a_real_bad_row(data):
    path = data / "glue/QQP/subset.tsv.xz"
    with pytest.raises(Problem, match=r"subset\.tsv\.xz, line 1 has 5 columns where 6"):
        read_labelled(path, "pair")
    found = read_labelled(path, "pair", skip_bad=1)
    assert (len(found), found.skipped, found.columns) == (23496, 1, Columns("4", "5", "6"))


def test_real_questions_by_coarse_and_fine_type(data):
    path = data / "trec/train_5500.label"
    found = read_labelled(path, "classify", encoding="latin-1")
    assert len(found) == 5452 and LabelMap.of(found.labels).names == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    fine = read_labelled(path, "classify", Columns(label="fine"), encoding="latin-1")
    assert len(LabelMap.of(fine.labels)) == 50


def test_real_word_senses_from_three_files(data):
    parts = [
        read_table(data / f"wic-tsv/en/Training/train_{part}.txt") for part in ("examples", "definitions", "labels")
    ]
    found = label_table(beside(*parts), "pair")
    assert (len(found), LabelMap.of(found.labels).names) == (2828, ("F", "T"))
    assert found.columns == Columns("3", "4", "5")


def test_real_test_files_have_texts_alone(data):
    assert len(read_texts(data / "glue/RTE/test.tsv.xz", "pair")) == 3000
    assert len(read_texts(data / "sst2/test.tsv", "classify")) == 1821
    with pytest.raises(Problem, match="no column looks like the label"):
        read_labelled(data / "sst2/test.tsv", "classify")


def test_real_overlap(data):
    phrases, sentences = (read_labelled(data / "sst2" / name, "classify") for name in ("train.tsv.xz", "dev.tsv"))
    assert overlap(phrases, sentences).texts == 0
    assert overlap(sentences, sentences).both == 872
