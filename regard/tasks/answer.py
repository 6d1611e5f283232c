"""The words of a text that answer a question: a score for each piece to begin the answer and one to end it (Devlin et
al., 2018).  A long text is read in stretches that overlap; a question without an answer points at the first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.framed import Examples, Framed
from regard.data.questions import Question, Questions, read_questions
from regard.data.reading import Reading
from regard.data.windows import Windows
from regard.device import widest_float
from regard.errors import Problem, UsageProblem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import answered, scores_of
from regard.rows import Rows
from regard.tasks.answer_metrics import best_threshold, doubtful_left_out, score_answers
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, filled, label_settings
from regard.text.tokenizer import Tokenizer

LONGEST, QUESTION, ANSWER = 384, 64, 30  # pieces of a row, of a question, and of an answer: the paper's
TOGETHER = 1000  # contexts encoded at once, so that lists of their pieces' spans never fill the memory
DOUBT = "regard_no_answer"  # what a config.json of ours calls the threshold

Input = tuple[str, str]  # a question and its context


@dataclass(frozen=True)
class Found:
    """An answer and from which character of the context to which it reaches; empty where none is given."""

    text: str
    start: int
    end: int
    score: float
    no_answer: float  # how much better it scores that there is none


@dataclass(frozen=True, eq=False)
class LaidQuestions:
    """Questions as rows, each with a stretch of its context."""

    framed: Framed
    question: np.ndarray  # (B,) which question a row asks,
    begin: np.ndarray  # (B,) where in the row its stretch begins,
    first: np.ndarray  # (B,) the piece of the context that lies there,
    count: np.ndarray  # (B,) and how many pieces follow
    spans: list[np.ndarray]  # of each question's context: from which character to which each piece reaches, (pieces, 2)


class Answer(Task):
    """`threshold` is how much better "no answer" may score than an answer that is still given; None: any."""

    role = "answer"
    outputs = 2
    watched = "token f1"

    def __init__(self, threshold: float | None = None):
        super().__init__()
        self.threshold = threshold

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Questions:
        return read_questions(path, reading.encoding)

    @classmethod
    def of(cls, data: Questions) -> Answer:
        if not any(question.spans for question in data):
            raise Problem(f"{data.source} has no question whose answer is in its context: nothing can be learned")
        return cls(0.0 if any(question.impossible for question in data) else None)

    @classmethod
    def load(cls, published: Published) -> Answer:
        threshold = published.theirs.get(DOUBT)
        return cls(float(threshold) if isinstance(threshold, int | float) else None)

    def settings(self) -> dict[str, Any]:
        return {**label_settings(["LABEL_0", "LABEL_1"]), DOUBT: self.threshold}  # start and end, as everyone has them

    def examples(self, reader: Reader, data: Questions) -> Examples:
        asked = [question for question in data if question.trainable]
        laid = lay_questions(reader, self.inputs(asked))
        pieces = np.array([answer_pieces(*one) for one in zip(asked, laid.spans, strict=True)])[laid.question]  # (B, 2)
        inside = (pieces[:, 0] >= laid.first) & (pieces[:, 1] < laid.first + laid.count)
        places = pieces + (laid.begin - laid.first)[:, None]
        lost = (pieces[:, 0] < 0) & ~np.array([question.impossible for question in asked])[laid.question]
        wanted = np.where(inside[:, None], places, 0)[~lost]  # the first token where the answer is not in the stretch
        notes = [f"{len(asked):,} questions in {len(laid.framed):,} rows of at most {longest_of(reader)} pieces"]
        if lost.any():
            notes.append(f"warning: {int(lost.sum()):,} rows are left out: no piece of their context is in the answer")
        return Examples(laid.framed.take(np.flatnonzero(~lost)), wanted, notes=notes)

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        rows = batch["tokens"].rows
        scores = scores_of(model, "answer", states, rows, self).float()  # (N, W) -> (N, 2)
        both = filled(rows, scores).transpose(1, 2).flatten(0, 1)  # (N, 2) -> (B, T, 2) -> (2B, T)
        return answered(both, batch["wanted"].flatten())

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[Found]:
        found = self.find(reader, inputs)
        if self.threshold is None:
            return found
        return [replace(one, text="", start=0, end=0) if one.no_answer > self.threshold else one for one in found]

    def find(self, reader: Reader, inputs: Sequence[Input]) -> list[Found]:
        """The best answer to each question, whether or not there is one."""
        for given in inputs:
            if isinstance(given, str) or len(given) != 2:
                raise UsageProblem(f"{given!r} is no question with its text; give two texts, the question first")
        laid = lay_questions(reader, inputs)
        best = np.zeros((len(laid.framed), 4))
        for numbers, scores, rows in reader.scores("answer", laid.framed):
            begin, count = (torch.from_numpy(part[numbers]).to(scores.device) for part in (laid.begin, laid.count))
            best[numbers] = best_spans(scores.float(), rows, begin, begin + count).cpu().numpy()
        starts = np.flatnonzero(np.diff(laid.question, prepend=-1))  # the first row of each question
        order = np.lexsort((-best[:, 0], laid.question))  # its rows stay where they are, but the best comes first
        none = np.minimum.reduceat(best[:, 3], starts).tolist()
        return [
            found_in(inputs[number][1], laid, row, best[row], none[number])
            for number, row in enumerate(order[starts].tolist())
        ]

    def inputs(self, data: Questions | Sequence[Question]) -> list[Input]:
        return [(question.question, question.context) for question in data]

    def tune(self, reader: Reader, data: Questions) -> None:
        """Find a threshold that scores better, if the task knows questions without an answer."""
        asked = scorable(data)
        if self.threshold is None or not any(question.impossible for question in asked):
            return
        found = dict(zip((one.id for one in asked), self.find(reader, self.inputs(asked)), strict=True))
        texts = {identity: one.text for identity, one in found.items()}
        doubts = {identity: one.no_answer for identity, one in found.items()}
        now = score_answers(doubtful_left_out(texts, doubts, self.threshold), asked, "token F1")
        best = best_threshold(texts, doubts, asked)
        if best.best.value > now.value:
            self.threshold = best.at

    def metrics(self, data: Questions) -> list[str]:
        return ["exact match", "token f1"]

    def score(self, answers: Sequence[Found], data: Questions) -> list[Score]:
        asked = scorable(data)
        given = {question.id: answer.text for question, answer in zip(data, answers, strict=True)}
        texts = {question.id: given[question.id] for question in asked}
        return [score_answers(texts, asked, "exact match"), score_answers(texts, asked, "token F1")]


def longest_of(reader: Reader) -> int:
    return min(reader.longest, LONGEST)


def lay_questions(reader: Reader, inputs: Sequence[Input]) -> LaidQuestions:
    frame, longest = reader.tokenizer.frame, longest_of(reader)
    room = longest - frame.around(2)
    asked = [ids[: min(QUESTION, room // 2)] for ids in reader.tokenizer.encode_batch([asked for asked, _ in inputs])]
    contexts = encoded(reader.tokenizer, [context for _, context in inputs])
    cuts = [
        (number, cut)
        for number, (question, (ids, _)) in enumerate(zip(asked, contexts, strict=True))
        for cut in Windows.of(room - len(question)).over(len(ids))
    ]
    framed = Framed.of(frame.row(asked[n], contexts[n][0][cut.start : cut.stop]) for n, cut in cuts)
    before = len(frame.first) + len(frame.between)
    places = [(n, before + len(asked[n]), cut.start, len(cut)) for n, cut in cuts]
    question, begin, first, count = np.array(places, np.int64).reshape(-1, 4).T
    return LaidQuestions(framed, question, begin, first, count, [spans for _, spans in contexts])


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], np.ndarray]]:
    """The ids of each text and the spans of its pieces; a text that many questions ask about is encoded once."""
    distinct, known = iter(dict.fromkeys(texts)), dict[str, tuple[list[int], np.ndarray]]()
    while some := list(islice(distinct, TOGETHER)):
        for text, (ids, spans) in zip(some, tokenizer.encode_spans_batch(some), strict=True):
            known[text] = ids, np.array(spans, np.int32).reshape(-1, 2)
    return [known[text] for text in texts]


def answer_pieces(question: Question, spans: np.ndarray) -> tuple[int, int]:
    """The first and the last piece that have to do with the answer; -1 where there is none."""
    if not question.spans:
        return -1, -1
    start, end = question.spans[0]
    touched = np.flatnonzero((spans[:, 0] < end) & (spans[:, 1] > start))
    return (int(touched[0]), int(touched[-1])) if len(touched) else (-1, -1)


def best_spans(scores: Tensor, rows: Rows, begin: Tensor, end: Tensor) -> Tensor:  # (N, 2) -> (B, 4)
    """Of each row, the best sum of two scores whose pieces lie from `begin` to before `end`, the first not after the
    last and at most so far apart as an answer may be long; both places; and the sum of the first token's two."""
    both = filled(rows, scores)  # (B, T, 2)
    lowest = torch.finfo(scores.dtype).min
    places = torch.arange(rows.longest, device=scores.device)
    outside = (places < begin[:, None]) | (places >= end[:, None])
    starts, ends = both.masked_fill(outside[..., None], lowest).unbind(-1)
    ends = F.pad(ends, (0, ANSWER - 1), value=lowest).unfold(1, ANSWER, 1)  # (B, T) -> (B, T, 30), those at and after
    best = (starts[..., None] + ends).clamp(min=lowest).flatten(1).max(1)  # (B, T, 30) -> (B,)
    first = best.indices // ANSWER
    found = torch.stack([best.values, first, first + best.indices % ANSWER, both[:, 0].sum(-1)], 1)
    return found.to(widest_float(scores.device))


def found_in(context: str, laid: LaidQuestions, row: int, best: np.ndarray, none: float) -> Found:
    """The answer that a row gives, in characters of its context."""
    score = float(best[0])
    if not laid.count[row]:
        return Found("", 0, 0, score, none - score)
    first, last = (best[1:3] - laid.begin[row] + laid.first[row]).astype(int)
    spans = laid.spans[laid.question[row]]
    start, text = int(spans[first, 0]), context[spans[first, 0] : spans[last, 1]]
    start += len(text) - len(text.lstrip())  # some vocabularies count the space before a piece as part of it
    text = text.strip()
    return Found(text, start, start + len(text), score, none - score)


def scorable(data: Questions) -> list[Question]:
    """The questions of which it is known what is right."""
    return [question for question in data if question.impossible or question.answers]
