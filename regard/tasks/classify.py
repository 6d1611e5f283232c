"""A label, or a number, for a text or a pair of texts, read off the first token (Devlin et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.framed import Examples, Framed
from regard.data.labelled import Columns, Labelled, LabelMap, numbers, read_labelled
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import answered, counted, scores_of, states_of
from regard.tasks.label_metrics import accuracy, binary_f1, macro_f1, matthews, pearson, spearman
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, label_names, label_settings, row_scores, told_if_cut

Input = str | tuple[str, ...]  # a text, or a pair


@dataclass(frozen=True)
class Judged:
    """The label of a text, and how probable each is."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Classify(Task):
    role = "classify"
    watched = "accuracy"
    kind: Any = "classify"
    least = 1  # texts of an input

    def __init__(self, labels: LabelMap):
        super().__init__()
        self.labels, self.outputs = labels, len(labels)

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Labelled:
        r = reading
        kinds: dict[str, Any] = {"header": r.header, "skip_bad": r.skip_bad, "unlabelled": r.unlabelled}
        return read_labelled(path, cls.kind, Columns.of(r), encoding=r.encoding, **kinds)

    @classmethod
    def of(cls, data: Labelled) -> Classify:
        labels = LabelMap.of(data.labels)
        if len(labels) < 2:
            raise Problem(f"{data.source}: all examples have the label {labels.names[0]!r}; give two or more kinds")
        return cls(labels)

    @classmethod
    def load(cls, published: Published) -> Classify:
        return cls(LabelMap(label_names(published, "classify")))

    def settings(self) -> dict[str, Any]:
        return {**label_settings(self.labels.names), "problem_type": "single_label_classification"}

    def examples(self, reader: Reader, data: Labelled) -> Examples:
        wanted = np.array(self.labels.ids(data.labels, data.place), np.int64)
        framed = reader.framed(data.texts)
        return Examples(framed, wanted, notes=framed.cut(reader.longest))

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        scores = scores_of(model, "classify", states_of(model, batch), batch["tokens"].rows, self)  # (N, W) -> (B, V)
        return answered(scores.float(), batch["wanted"])

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[Judged]:
        texts = texts_of(reader, inputs, least=self.least)
        shares = row_scores(reader, "classify", texts, lambda scores: scores.softmax(-1))
        return [self.judged(row) for row in shares]

    def judged(self, shares: list[float]) -> Judged:
        best = max(range(len(shares)), key=shares.__getitem__)
        return Judged(self.labels.names[best], shares[best], dict(zip(self.labels.names, shares, strict=True)))

    def inputs(self, data: Labelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: Labelled) -> None:
        self.labels.ids(data.labels, data.place)

    def score(self, answers: Sequence[Judged], data: Labelled) -> list[Score]:
        self.check(data)  # a label that was never learned is told, not counted as a mistake
        said = [answer.label for answer in answers]
        found = [accuracy(said, data.labels), macro_f1(said, data.labels), matthews(said, data.labels)]
        if len(self.labels) == 2:
            found.insert(1, binary_f1(said, data.labels, self.labels.names[-1]))
        return found


class Pair(Classify):
    kind = "pair"
    least = 2


class Regress(Task):
    """A number.  It is learned in units of its own spread; `finish` puts the units into the head, `begin` takes them
    out again."""

    role = "classify"
    outputs = 1
    watched = "pearson"

    def __init__(self, mean: float = 0.0, spread: float = 1.0):
        super().__init__()
        self.mean, self.spread = mean, spread

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Labelled:
        r = reading
        return read_labelled(path, "regress", Columns.of(r), encoding=r.encoding, header=r.header, skip_bad=r.skip_bad)

    @classmethod
    def of(cls, data: Labelled) -> Regress:
        given = np.array(numbers(data))
        if not np.ptp(given):
            raise Problem(f"{data.source}: all examples have the number {given[0]:g}; nothing can be learned")
        return cls(float(given.mean()), float(given.std()))

    @classmethod
    def load(cls, published: Published) -> Regress:
        return cls()

    def settings(self) -> dict[str, Any]:
        return {**label_settings(["LABEL_0"]), "problem_type": "regression"}

    def examples(self, reader: Reader, data: Labelled) -> Examples:
        wanted = (np.array(numbers(data)) - self.mean) / self.spread
        framed = reader.framed(data.texts)
        return Examples(framed, wanted.astype(np.float32), notes=framed.cut(reader.longest))

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        scores = scores_of(model, "classify", states_of(model, batch), batch["tokens"].rows, self)  # (N, W) -> (B, 1)
        wanted = batch["wanted"]
        return Result(F.mse_loss(scores[:, 0].float(), wanted, reduction="sum"), counted(wanted))

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[float]:
        found = row_scores(reader, "classify", texts_of(reader, inputs), lambda scores: scores)
        return [number * self.spread + self.mean for (number,) in found]

    def inputs(self, data: Labelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: Labelled) -> None:
        numbers(data)

    def score(self, answers: Sequence[float], data: Labelled) -> list[Score]:
        wanted = numbers(data)
        return [pearson(answers, wanted), spearman(answers, wanted)]

    @torch.no_grad()
    def begin(self, model: nn.Module) -> None:
        out = model.heads["classify"].out  # type: ignore[index, union-attr]
        out.weight.div_(self.spread)
        out.bias.sub_(self.mean).div_(self.spread)

    @torch.no_grad()
    def finish(self, model: nn.Module) -> None:
        out = model.heads["classify"].out  # type: ignore[index, union-attr]
        out.weight.mul_(self.spread)
        out.bias.mul_(self.spread).add_(self.mean)
        self.mean, self.spread = 0.0, 1.0


def texts_of(reader: Reader, inputs: Sequence[Input], least: int = 1) -> Framed:
    texts = [(given,) if isinstance(given, str) else tuple(given) for given in inputs]
    for given in texts:
        if not least <= len(given) <= 2:
            wanted = "one, or a pair" if least == 1 else "a pair, for which this was trained"
            raise UsageProblem(f"{len(given)} texts together, such as {given[:3]}; give {wanted}")
    return told_if_cut(reader.framed(texts), reader.longest)
