"""SQuAD's files, and what may be wrong in one: mended or left out, and always told."""

import json
import os
from pathlib import Path

import pytest

from regard.data import questions as file
from regard.data.questions import NOWHERE, read_questions, split_articles
from regard.errors import Problem

CONTEXT = "The oil crisis began in October 1973. In October, oil rose."


def asked(number: int, answers=(), **more):
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": f"q{number}", "question": "When?", "answers": given} | more


def write(folder, *items, context=CONTEXT):
    path = folder / "dev.json"
    article = {"title": "Oil", "paragraphs": [{"context": context, "qas": list(items)}]}
    path.write_text(json.dumps({"version": "2.0", "data": [article]}))
    return path


def test_questions_and_their_answers(tmp_path):
    path = write(tmp_path, asked(1, [("October 1973", 24), ("October", 24)]), asked(2, is_impossible=True))
    found = read_questions(path)
    first, second = found
    assert (first.id, first.title, first.question, first.context) == ("q1", "Oil", "When?", CONTEXT)
    assert first.answers == (("October 1973", 24), ("October", 24)) and not first.impossible
    assert [CONTEXT[start:end] for start, end in first.spans] == ["October 1973", "October"]
    assert (second.answers, second.impossible, second.trainable) == ((), True, True)
    assert found.faults == {} and found.lines() == [f"{path}: 2 questions, 1 of them impossible; 2 can be trained on"]


@pytest.mark.parametrize(
    "item, fault, answers, trainable",
    [
        (asked(2, [("October", 20)]), file.MOVED, (("October", 24),), True),  # the nearest of two
        (asked(2, [("October", 37)]), file.MOVED, (("October", 41),), True),
        (asked(2, [("rose", -5)]), file.MOVED, (("rose", 54),), True),
        (asked(2, [("rose", 10**9)]), file.MOVED, (("rose", 54),), True),
        (asked(2, [(" rose", 0)]), file.MOVED, (("rose", 54),), True),
        (asked(2, [("1974", 32)]), file.LOST, (("1974", NOWHERE),), False),
        (asked(2, [("1974", 32), ("1973", 32)]), file.LOST, (("1974", NOWHERE), ("1973", 32)), True),
        (asked(2, [(" ", 3), ("1973", 32)]), file.EMPTY, (("1973", 32),), True),
        (asked(2), file.UNANSWERED, (), False),
        (asked(2, [("1973", 32)], is_impossible=True), file.CONTRADICTED, (), True),
    ],
)
def test_faults_of_answers(tmp_path, item, fault, answers, trainable):
    found = read_questions(write(tmp_path, asked(1, [("1973", 32)]), item))
    assert found.faults == {fault: ["q2"]} and len(found) == 2
    assert found[1].answers == answers and found[1].trainable == trainable
    assert found.lines()[1] == f"warning: 1 {fault} (q2)"


@pytest.mark.parametrize("item, fault", [(asked(1, [("1973", 32)]), file.TWICE), (asked(2, question=" "), file.BLANK)])
def test_questions_that_are_left_out(tmp_path, item, fault):
    found = read_questions(write(tmp_path, asked(1, [("1973", 32)]), item))
    assert len(found) == 1 and found.faults == {fault: [item["id"]]}


@pytest.mark.parametrize(
    "content, says",
    [
        ("{", r"dev\.json is not valid JSON"),
        ("[]", r"dev\.json has no 'data' of type list"),
        ('{"data": [7]}', r"dev\.json, data\[0\] is '7', where an object"),
        ('{"data": []}', r"dev\.json has no questions"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\[0\], paragraphs\[0\] has no 'context' of type str"),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "b", "answers": [{"text": "a"}]}'
            "]}]}]}",
            r"qas\[0\], answers\[0\] has no 'answer_start' of type int",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "b", "is_impossible": "no"}]}]'
            "}]}",
            r"qas\[0\] has no 'is_impossible' of type bool",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}',
            r"has no 'id' of type str \| int",
        ),
        ('{"data": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_files_of_another_form(tmp_path, content, says):
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(Problem, match=says):
        read_questions(path)


def test_articles_are_split(tmp_path):
    found = read_questions(write(tmp_path, asked(1, [("1973", 32)]), asked(2, [("1974", 32)])))
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"train": ["Oil"], "eval": ["Gas"], "note": "by article"}))
    parts = split_articles(found, split)
    assert [question.id for question in parts["train"]] == ["q1", "q2"] and list(parts["eval"]) == []
    assert parts["train"].faults == {file.LOST: ["q2"]} and parts["eval"].faults == {}
    for content, says in {
        '{"train": ["Gas"]}': r"puts 1 articles of .*dev\.json in no part: Oil",
        '{"train": ["Oil"], "eval": ["Oil"]}': "'Oil' is in both train and eval",
        "[]": r"split\.json is no object",
    }.items():
        split.write_text(content)
        with pytest.raises(Problem, match=says):
            split_articles(found, split)


def test_real_questions():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of real data")
    folder = Path(os.environ["REGARD_DATA"]) / "squad"
    first, second = (read_questions(folder / f"dev-v{version}.json.xz") for version in ("1.1", "2.0"))
    assert (len(first), len(second), first.faults, second.faults) == (10570, 11873, {}, {})
    assert (
        sum(question.impossible for question in first) == 0 and sum(question.impossible for question in second) == 5945
    )
    assert all(
        q.context[start:end] == text for q in first for (start, end), (text, _) in zip(q.spans, q.answers, strict=True)
    )
    parts = split_articles(first, folder / "article-split.json")
    assert {name: len(part) for name, part in parts.items()} == {"train": 8076, "eval": 2494}
    assert not {q.title for q in parts["train"]} & {q.title for q in parts["eval"]}
