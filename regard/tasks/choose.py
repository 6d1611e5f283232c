"""Which of some texts goes with another: each is read with it as a pair and scored off one token, and the scores of one
question compete (SWAG as in Devlin et al., 2018; stories as in Radford et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.framed import Examples, Framed
from regard.data.labelled import Columns, Labelled, read_labelled, right_choices
from regard.data.reading import Reading
from regard.errors import UsageProblem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import answered, scores_of
from regard.tasks.label_metrics import accuracy
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, filled, label_settings, row_scores, told_if_cut


@dataclass(frozen=True)
class Chosen:
    """Which choice goes with a text, counted from 0, and how probable each is."""

    index: int
    choice: str
    probabilities: list[float]


class Choose(Task):
    role = "choose"
    outputs = 1
    watched = "accuracy"

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Labelled:
        r = reading
        kinds: dict[str, Any] = {"header": r.header, "skip_bad": r.skip_bad, "unlabelled": r.unlabelled}
        return read_labelled(path, "choose", Columns.of(r), encoding=r.encoding, **kinds)

    @classmethod
    def of(cls, data: Labelled) -> Choose:
        right_choices(data)
        return cls()

    @classmethod
    def load(cls, published: Published) -> Choose:
        return cls()

    def settings(self) -> dict[str, Any]:
        return label_settings(["LABEL_0", "LABEL_1"])  # no names of its own: those of a task before it must not stay

    def examples(self, reader: Reader, data: Labelled) -> Examples:
        framed, groups = paired(reader, data.texts)
        return Examples(framed, np.array(right_choices(data), np.int64), groups, framed.cut(reader.longest, groups))

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        scores = scores_of(model, "choose", states, batch["tokens"].rows, self)  # (N, W) -> (B, 1)
        return answered(filled(batch["groups"], scores[:, 0].float()), batch["wanted"])  # (B,) -> (questions, choices)

    def predict(self, reader: Reader, inputs: Sequence[tuple[str, ...]]) -> list[Chosen]:
        for given in inputs:
            if isinstance(given, str) or len(given) < 3:
                raise UsageProblem(
                    f"{given!r} leaves nothing to choose; give a text, and two or more that may go with it"
                )
        framed, groups = paired(reader, inputs)
        told_if_cut(framed, reader.longest)
        scores = np.array(row_scores(reader, "choose", framed, lambda scores: scores)).reshape(-1)
        each = np.split(scores, groups[1:-1]) if len(inputs) else []
        return [chosen(given[1:], found) for given, found in zip(inputs, each, strict=True)]

    def inputs(self, data: Labelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: Labelled) -> None:
        right_choices(data)

    def metrics(self, data: Labelled) -> list[str]:
        return ["accuracy"]

    def score(self, answers: Sequence[Chosen], data: Labelled) -> list[Score]:
        return [accuracy([str(answer.index) for answer in answers], [str(right) for right in right_choices(data)])]


def paired(reader: Reader, texts: Sequence[tuple[str, ...]]) -> tuple[Framed, np.ndarray]:
    """A row for each choice, and from which row to which each question reaches."""
    framed = reader.framed([(text, choice) for text, *choices in texts for choice in choices])
    return framed, np.cumsum([0, *(len(given) - 1 for given in texts)], dtype=np.int64)


def chosen(choices: Sequence[str], scores: np.ndarray) -> Chosen:
    best = int(scores.argmax())
    return Chosen(best, choices[best], torch.from_numpy(scores).softmax(0).tolist())
