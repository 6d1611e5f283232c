"""Questions about a text and their answers in it, from SQuAD's JSON, 1.1 or 2.0 (Rajpurkar et al. 2016, 2018)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.split import ExampleKey, plain_text
from regard.data.table import read_json
from regard.errors import Problem

NOWHERE = -1  # where an answer begins that is not in its context
MIN_ARTICLES = 10  # from which on whole articles are held out
SHOWN = 3  # ids that are named with a fault

MOVED = "answers are not where the file says, and were found elsewhere in the context"
LOST = "answers are not in the context: they serve for scoring, not for training"
EMPTY = "answers are blank, and left out"
UNANSWERED = "questions have no answer, though they are not called impossible: they cannot be trained on or scored"
CONTRADICTED = "questions are called impossible but have answers: these are left out"
TWICE = "questions have the id of another before them, and are left out"
BLANK = "questions or their contexts are blank, and are left out"


@dataclass(frozen=True)
class Question:
    id: str
    title: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]  # texts, and where they begin in the context
    impossible: bool

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where the answers that are in the context begin and end."""
        return [(start, start + len(text)) for text, start in self.answers if start != NOWHERE]

    @property
    def trainable(self) -> bool:
        return self.impossible or bool(self.spans)


@dataclass(frozen=True, eq=False)
class Questions:
    """All questions of a file, and what was wrong with it."""

    source: str
    questions: list[Question]
    faults: dict[str, list[str]]  # each fault, and the ids of the questions that have it

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)

    def __getitem__(self, number: int) -> Question:
        return self.questions[number]

    def take(self, numbers: Sequence[int], source: str) -> Questions:
        """The chosen questions, in that order."""
        chosen = [self.questions[number] for number in numbers]
        inside = {question.id for question in chosen}
        faults = {fault: [one for one in ids if one in inside] for fault, ids in self.faults.items()}
        return Questions(source, chosen, {fault: ids for fault, ids in faults.items() if ids})

    def example_keys(self) -> list[ExampleKey]:
        """Questions of one article stay together, or of one context where there are few articles, since they help to
        answer each other."""
        by_article = len({question.title for question in self}) >= MIN_ARTICLES
        several = len({question.context for question in self}) > 1
        return [
            ExampleKey(
                plain_text([question.question, question.context]),
                " ".join(text for text, _ in question.answers),
                str(question.impossible),
                group=question.title if by_article else question.context if several else None,
            )
            for question in self
        ]

    def lines(self) -> list[str]:
        """The facts as text, the faults last."""
        impossible = sum(question.impossible for question in self)
        return [
            f"{self.source}: {len(self):,} questions, {impossible:,} of them impossible; "
            f"{sum(question.trainable for question in self):,} can be trained on",
            *(f"warning: {len(ids):,} {fault} ({_some(ids)})" for fault, ids in self.faults.items()),
        ]


def read_questions(path: str | Path, encoding: str = "utf-8") -> Questions:
    """The questions of a file in SQuAD's form.  What is wrong with some of them is mended or left out, and told."""
    found: dict[str, Question] = {}
    faults: defaultdict[str, list[str]] = defaultdict(list)
    for place, title, context, item in _items(path, encoding):
        asked, identity = _field(item, "question", str, place), str(_field(item, "id", str | int, place))
        if identity in found:
            faults[TWICE].append(identity)
        elif not asked.strip() or not context.strip():
            faults[BLANK].append(identity)
        else:
            answers, wrong = _answers(item, context, place)
            impossible = "is_impossible" in item and _field(item, "is_impossible", bool, place)
            if bool(answers) == impossible:
                wrong.append(CONTRADICTED if impossible else UNANSWERED)
            for fault in wrong:
                faults[fault].append(identity)
            found[identity] = Question(identity, title, asked, context, () if impossible else answers, impossible)
    if not found:
        raise Problem(f"{path} has no questions. Give a file in SQuAD's form, with questions that are not blank.")
    return Questions(str(path), list(found.values()), dict(faults))


def split_articles(questions: Questions, path: str | Path) -> dict[str, Questions]:
    """The questions in parts, such as "train" and "eval", by a JSON file that lists the titles of each part's articles;
    an article is never in two parts, since its questions help to answer each other."""
    split = read_json(path)
    if not isinstance(split, dict):
        raise Problem(f'{path} is no object that lists titles for each part, such as {{"train": [...]}}.')
    parts = {name: titles for name, titles in split.items() if isinstance(titles, list)}
    part_of: dict[str, str] = {}
    for name, titles in parts.items():
        for title in map(str, titles):
            if part_of.setdefault(title, name) != name:
                raise Problem(f"{path}: the article {title!r} is in both {part_of[title]} and {name}. Leave it in one.")
    if missing := {question.title for question in questions} - part_of.keys():
        raise Problem(
            f"{path} puts {len(missing)} articles of {questions.source} in no part: {_some(sorted(missing))}."
        )
    return {name: _part(questions, {title for title in part_of if part_of[title] == name}) for name in parts}


def _part(questions: Questions, titles: set[str]) -> Questions:
    return questions.take([n for n, question in enumerate(questions) if question.title in titles], questions.source)


def _items(path: str | Path, encoding: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Each question as it is in the file, with its place, its article's title and its paragraph's text."""
    for article, in_article in _objects(read_json(path, encoding), "data", str(path)):
        for paragraph, in_paragraph in _objects(article, "paragraphs", in_article):
            context = _field(paragraph, "context", str, in_paragraph)
            for item, place in _objects(paragraph, "qas", in_paragraph):
                yield place, str(article.get("title", "")), context, item


def _objects(parent: Any, name: str, place: str) -> Iterator[tuple[dict[str, Any], str]]:
    for number, item in enumerate(_field(parent, name, list, place)):
        inside = f"{place}, {name}[{number}]"
        if not isinstance(item, dict):
            raise Problem(f"{inside} is {str(item)[:40]!r}, where an object is expected as in SQuAD's form.")
        yield item, inside


def _field(parent: Any, name: str, kind: Any, place: str) -> Any:
    if not isinstance(parent, dict) or not isinstance(parent.get(name), kind):
        kinds = getattr(kind, "__name__", str(kind))
        raise Problem(f"{place} has no {name!r} of type {kinds}, as SQuAD's form has it. Is this such a file?")
    return parent[name]


def _answers(item: dict[str, Any], context: str, place: str) -> tuple[tuple[tuple[str, int], ...], list[str]]:
    """The answers with their places mended, and what was wrong with them."""
    answers, wrong = [], []
    for answer, inside in _objects({"answers": item.get("answers", [])}, "answers", place):
        text, start = _field(answer, "text", str, inside), _field(answer, "answer_start", int, inside)
        if not text.strip():
            wrong.append(EMPTY)
            continue
        if start < 0 or not context.startswith(text, start):
            text = text.strip()
            start = _nearest(context, text, start)
            wrong.append(LOST if start == NOWHERE else MOVED)
        answers.append((text, start))
    return tuple(answers), wrong


def _nearest(context: str, text: str, start: int) -> int:
    places = [found.start() for found in re.finditer(f"(?={re.escape(text)})", context)]
    return min(places, key=lambda place: abs(place - start), default=NOWHERE)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
