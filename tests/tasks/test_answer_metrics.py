"""Answers are scored by the rules of SQuAD's scripts, here in cases worked out by hand."""

import pytest

from regard.data.questions import Question
from regard.errors import Problem
from regard.tasks.answer_metrics import best_threshold, doubtful_left_out, normalised, score_answers


def question(identity: str, *answers: str) -> Question:
    return Question(identity, "title", "why?", "context", tuple((text, 0) for text in answers), not answers)


def score(predicted: str, *answers: str, metric="token F1") -> float:
    return score_answers({"q": predicted}, [question("q", *answers)], metric).value


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The  Norman's, A-B!", "normans ab"),
        ("an apple a day", "apple day"),
        ("theatre Anna the.", "theatre anna"),
        ("“quoted” – É", "“quoted” – é"),  # only ASCII's punctuation goes
        ("a.the", "athe"),
        ("the", ""),
    ],
)
def test_what_is_compared(text, expected):
    assert normalised(text) == expected


def test_exact_match_is_of_any_answer():
    assert score("The October 1973.", "in October", "october 1973", metric="exact match") == 100.0
    assert score("October 1973 war", "in October", "October 1973", metric="exact match") == 0.0
    assert score("a", "the", metric="exact match") == 100.0  # both are nothing, and so equal


def test_f1_is_of_words():
    assert score("b c d", "c d e f") == pytest.approx(100 * 2 * 2 / (3 + 4))
    assert score("c c", "c d") == pytest.approx(50.0)  # a word counts as often as both have it
    assert score("b c d", "x", "b c") == pytest.approx(80.0)
    assert score("x", "y") == 0.0
    assert score("a", "the") == 0.0  # 1.1's script finds no word in common, where exact match finds them equal


def test_all_questions_count_alike():
    asked = [question("1", "October 1973"), question("2", "oil"), question("3", "b c")]
    predicted = {"1": "october 1973", "2": "gas", "3": "b"}
    exact, f1 = (score_answers(predicted, asked, metric) for metric in ("exact match", "token F1"))
    assert exact.value == pytest.approx(100 / 3) and f1.value == pytest.approx(100 * (1 + 0 + 2 / 3) / 3)
    assert exact.signature == f1.signature == "rules:SQuAD 1.1" and exact.detail == "1.0 of 3"


def test_impossible_questions_want_no_answer():
    asked = [question("1", "oil"), question("2"), question("3"), question("4", "the", "gas")]
    predicted = {"1": "oil", "2": "", "3": "oil", "4": "gas fire"}
    exact, f1 = (score_answers(predicted, asked, metric) for metric in ("exact match", "token F1"))
    assert exact.value == 50.0 and f1.value == pytest.approx(100 * (1 + 1 + 0 + 2 / 3) / 4)
    assert f1.signature == "rules:SQuAD 2.0"
    assert f1.detail == "answerable 1.7 of 2, impossible 1 of 2"
    silent = {**predicted, "4": ""}
    assert score_answers(silent, asked, "exact match").value == 50.0  # "the" does not count as an answer of nothing


def test_the_best_threshold():
    asked = [question("1", "oil"), question("2"), question("3", "gas"), question("4"), question("5", "b c")]
    predicted = {"1": "oil", "2": "x", "3": "gas", "4": "x", "5": "b"}
    no_answer = {"1": 0.1, "2": 0.2, "3": 0.3, "4": 0.4, "5": 0.9}
    # answered so far, in this order: 2 right without any, then 3, 2, 3, 2 and 2 2/3 of 5
    found = best_threshold(predicted, no_answer, asked)
    assert (found.at, found.best.value) == (0.1, 60.0)
    assert doubtful_left_out(predicted, no_answer, 0.3) == {"1": "oil", "2": "x", "3": "gas", "4": "", "5": ""}
    never = best_threshold(dict.fromkeys(predicted, "y"), no_answer, asked, "exact match")
    assert never.at < 0.1 and never.best.value == 40.0
    always = best_threshold({**predicted, "2": "", "4": ""}, no_answer, asked)
    assert always.at == 0.9 and always.best.value == pytest.approx(100 * (4 + 2 / 3) / 5)
    together = best_threshold(predicted, {**no_answer, "1": 0.2}, asked)  # what is equally doubtful stays together
    assert (together.at, together.best.value) == (0.3, 60.0)


@pytest.mark.parametrize(
    "predicted, asked, says",
    [
        ({}, [], "nothing to score"),
        ({"1": "a"}, [question("1", "a"), question("2", "b")], "1 of 2 questions have no answer, such as '2'"),
        ({"1": "a", "2": "b"}, [question("1", "a")], "1 ids .* of no question, such as '2'"),
        ({"1": "a"}, [Question("1", "", "why?", "so", (), False)], "question '1' has no answer to compare with"),
    ],
)
def test_what_cannot_be_scored_is_refused(predicted, asked, says):
    with pytest.raises(Problem, match=says):
        score_answers(predicted, asked, "exact match")


def test_probabilities_that_are_none():
    asked = [question("1", "a"), question("2")]
    with pytest.raises(Problem, match="1 of 2 questions have no probability"):
        best_threshold({"1": "a", "2": ""}, {"1": 0.5}, asked)
    with pytest.raises(Problem, match="question '2' has the probability nan"):
        best_threshold({"1": "a", "2": ""}, {"1": 0.5, "2": float("nan")}, asked)
