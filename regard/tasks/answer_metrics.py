"""How good answers are, by the rules of SQuAD's own scripts: exact match and F1 over words, the best over a question's
answers (1.1, Rajpurkar et al. 2016); with questions that have none (2.0, Rajpurkar et al. 2018), and the threshold
from which on it is best to give none."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf, isfinite, nextafter
from operator import itemgetter
from typing import Literal

from regard.data.questions import Question
from regard.errors import Problem
from regard.tasks.metrics import Score

Metric = Literal["exact match", "token F1"]  # SQuAD calls the words of an answer its tokens

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Threshold:
    """An answer is given where the probability that there is none is at most `at`; `best` is what that scores."""

    at: float
    best: Score


def score_answers(predicted: Mapping[str, str], questions: Sequence[Question], metric: Metric) -> Score:
    """How good the answers are, each given by its question's id.  The rules are those of SQuAD 2.0 if some question is
    impossible: its right answer is the empty one.  Otherwise they are those of 1.1."""
    values = _values(predicted, questions, metric)
    hard = [value for value, question in zip(values, questions, strict=True) if question.impossible]
    detail = f"{sum(values):.1f} of {len(values)}"
    if hard:
        detail = (
            f"answerable {sum(values) - sum(hard):.1f} of {len(values) - len(hard)}, "
            f"impossible {sum(hard):.0f} of {len(hard)}"
        )
    return Score(metric, 100 * sum(values) / len(values), f"rules:SQuAD {'2.0' if hard else '1.1'}", detail)


def best_threshold(
    predicted: Mapping[str, str],
    no_answer: Mapping[str, float],
    questions: Sequence[Question],
    metric: Metric = "token F1",
) -> Threshold:
    """The threshold that scores best, given the probability that each question has no answer.  `predicted` has an
    answer for all of them."""
    values = _values(predicted, questions, metric)
    _check_ids(no_answer, "probability", questions)
    if wrong := [identity for identity, probability in no_answer.items() if not isfinite(probability)]:
        raise Problem(f"question {wrong[0]!r} has the probability {no_answer[wrong[0]]}; give finite numbers")
    gains = sorted((no_answer[q.id], value - q.impossible) for value, q in zip(values, questions, strict=True))
    at, total, best = nextafter(gains[0][0], -inf), 0.0, 0.0  # below all: none is answered
    for probability, together in groupby(gains, key=itemgetter(0)):
        total += sum(gain for _, gain in together)
        if total > best:
            at, best = probability, total
    return Threshold(at, score_answers(doubtful_left_out(predicted, no_answer, at), questions, metric))


def doubtful_left_out(predicted: Mapping[str, str], no_answer: Mapping[str, float], at: float) -> dict[str, str]:
    """The answers, empty where the probability that there is none is above a threshold."""
    return {identity: "" if no_answer[identity] > at else text for identity, text in predicted.items()}


def normalised(text: str) -> str:
    """What is compared: small letters, without punctuation, articles or needless spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def _values(predicted: Mapping[str, str], questions: Sequence[Question], metric: Metric) -> list[float]:
    """The best value of each answer over those that are right."""
    _check_ids(predicted, "answer", questions)
    measure = {"exact match": _exact, "token F1": _f1}[metric]
    some_impossible = any(question.impossible for question in questions)
    values = []
    for question in questions:
        right = [text for text, _ in question.answers]
        if not right and not question.impossible:
            raise Problem(
                f"question {question.id!r} has no answer to compare with; leave it out, or call it impossible"
            )
        if some_impossible:
            right = [text for text in right if normalised(text)] or [""]
        values.append(max(measure(predicted[question.id], text) for text in right))
    return values


def _exact(predicted: str, right: str) -> float:
    return float(normalised(predicted) == normalised(right))


def _f1(predicted: str, right: str) -> float:
    ours, theirs = Counter(normalised(predicted).split()), Counter(normalised(right).split())
    if not right:
        return float(not ours)
    return 2 * (ours & theirs).total() / max(ours.total() + theirs.total(), 1)


def _check_ids(given: Mapping[str, object], name: str, questions: Sequence[Question]) -> None:
    if not questions:
        raise Problem("there is nothing to score: no question was given")
    ids = {question.id for question in questions}
    if missing := sorted(ids - given.keys()):
        raise Problem(
            f"{len(missing)} of {len(ids)} questions have no {name}, such as {missing[0]!r}; give one for each"
        )
    if unknown := sorted(given.keys() - ids):
        raise Problem(
            f"{len(unknown)} ids with an {name} are of no question, such as {unknown[0]!r}; is it another file?"
        )
