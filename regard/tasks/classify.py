"""A label, or a number, for a text or a pair of texts, read off the first token (Devlin et al., 2018), or off the last
(Radford et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.framed import Examples, Framed
from regard.data.labelled import Columns, Labelled, LabelMap, numbers, read_examples, read_labelled
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.layers.pooling import mean
from regard.layers.sentence import ACTIVATIONS
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import answered, counted, scores_of
from regard.rows import Rows
from regard.tasks.label_metrics import accuracy, binary_f1, f1_of, macro_f1, matthews, pearson, spearman
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, label_names, label_settings, row_scores, told_if_cut
from regard.tasks.transformation import in_both_orders, is_causal

Input = str | tuple[str, ...]  # a text, or a pair
TARGET_SCALE = "regard_target_scale"  # in the config.json of a model in training: its targets' mean and deviation


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
    symmetric = False  # neither text comes first, and the scores of both orders are averaged

    def __init__(self, labels: LabelMap):
        super().__init__()
        self.labels, self.outputs = labels, len(labels)

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Labelled:
        return read_examples(path, cls.kind, reading)

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
        framed, groups = laid(reader, data.texts, self.symmetric)
        return Examples(framed, wanted, groups, framed.cut(reader.longest, groups))

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        return answered(text_scores(model, states, batch, self), batch["wanted"])

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[Judged]:
        scores = scores_for(reader, texts_of(inputs, self.least), self.symmetric)
        return [self.judged(row) for row in scores.softmax(-1).tolist()]

    def judged(self, shares: list[float]) -> Judged:
        best = max(range(len(shares)), key=shares.__getitem__)
        return Judged(self.labels.names[best], shares[best], dict(zip(self.labels.names, shares, strict=True)))

    def inputs(self, data: Labelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: Labelled) -> None:
        self.labels.check(data.labels, data.source)

    def unseen(self, data: Labelled) -> dict[str, int]:
        return self.labels.unseen(data.labels)

    def metrics(self, data: Labelled) -> list[str]:
        binary = [f1_of(self.labels.names[-1])] if len(self.labels) == 2 else []
        return ["accuracy", *binary, "f1_macro", "matthews"]

    def score(self, answers: Sequence[Judged], data: Labelled) -> list[Score]:
        self.check(data)
        said = [answer.label for answer in answers]
        found = [accuracy(said, data.labels), macro_f1(said, data.labels), matthews(said, data.labels)]
        if len(self.labels) == 2:
            found.insert(1, binary_f1(said, data.labels, self.labels.names[-1]))
        return found


class Pair(Classify):
    kind = "pair"
    least = 2


class Similar(Pair):
    """A label for two texts of which neither comes first: whether they say the same."""

    symmetric = True


class Regress(Task):
    """A number.  It is learned in units of its own spread; `finish` puts the units into the head, `begin` takes them
    out again.  Of a language model, which reads one way, a pair is asked in both orders."""

    role = "classify"
    outputs = 1
    watched = "pearson"

    def __init__(self, mean: float = 0.0, spread: float = 1.0, activation: str = "Identity"):
        super().__init__()
        self.mean, self.spread = mean, spread
        self.activation = activation  # of the answer, once it is trained: a cross-encoder's is often the sigmoid

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
        scale = published.theirs.get(TARGET_SCALE, [0.0, 1.0])
        if not (isinstance(scale, list) and len(scale) == 2 and all(isinstance(one, float) for one in scale)):
            raise Problem(f"{TARGET_SCALE} is {scale!r} in config.json; it must be a mean and a standard deviation")
        return cls(*scale)

    def settings(self) -> dict[str, Any]:
        return {**label_settings(["LABEL_0"]), "problem_type": "regression"}

    def training_settings(self) -> dict[str, Any]:
        return {TARGET_SCALE: [self.mean, self.spread]}

    def examples(self, reader: Reader, data: Labelled) -> Examples:
        wanted = (np.array(numbers(data)) - self.mean) / self.spread
        framed, groups = laid(reader, data.texts, is_causal(reader.model))
        return Examples(framed, wanted.astype(np.float32), groups, framed.cut(reader.longest, groups))

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        scores, wanted = text_scores(model, states, batch, self), batch["wanted"]
        return Result(F.mse_loss(scores[:, 0], wanted, reduction="sum"), counted(wanted))

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[float]:
        scores = ACTIVATIONS[self.activation]()(scores_for(reader, texts_of(inputs), is_causal(reader.model)))
        return [number * self.spread + self.mean for number in scores.flatten().tolist()]

    def inputs(self, data: Labelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: Labelled) -> None:
        numbers(data)

    def metrics(self, data: Labelled) -> list[str]:
        return ["pearson", "spearman"]

    def score(self, answers: Sequence[float], data: Labelled) -> list[Score]:
        wanted = numbers(data)
        return [pearson(answers, wanted), spearman(answers, wanted)]

    @torch.no_grad()
    def begin(self, model: nn.Module) -> None:
        shift(model, -self.mean)
        for tensor in model.get_submodule("heads.classify.out").parameters():
            tensor.div_(self.spread)

    @torch.no_grad()
    def finish(self, model: nn.Module) -> None:
        for tensor in model.get_submodule("heads.classify.out").parameters():
            tensor.mul_(self.spread)
        shift(model, self.mean)
        self.mean, self.spread = 0.0, 1.0


def shift(model: Any, by: float) -> None:
    """Add to every score: by the head's bias; where it has none, by that of the norm before it, along the weights."""
    out = model.heads["classify"].out
    if out.bias is not None:
        out.bias.add_(by)
    else:
        model.encoder.norm.bias.add_(by * out.weight[0] / out.weight[0].square().sum())


def text_scores(model: nn.Module, states: Tensor, batch: Batch, asker: Task) -> Tensor:  # (N, W) -> (examples, V)
    """The scores of each example: of its row, or the mean of its rows'.  Where the head is linear, as GPT's is, that is
    the head of the mean of their states."""
    scores = scores_of(model, "classify", states, batch["tokens"].rows, asker).float()  # (N, W) -> (B, V)
    return mean(scores, batch["groups"]) if "groups" in batch else scores


def scores_for(reader: Reader, texts: Sequence[tuple[str, ...]], symmetric: bool) -> Tensor:  # (examples, V)
    framed, groups = laid(reader, texts, symmetric)
    told_if_cut(framed, reader.longest)
    scores = torch.tensor(row_scores(reader, "classify", framed, lambda scores: scores))
    return scores if groups is None or not texts else mean(scores, Rows.of(np.diff(groups).tolist()))


def laid(reader: Reader, texts: Sequence[tuple[str, ...]], symmetric: bool) -> tuple[Framed, np.ndarray | None]:
    """Texts as rows; and, where an example may have two, from which row to which each reaches."""
    return in_both_orders(reader, texts) if symmetric else (reader.framed(texts), None)


def texts_of(inputs: Sequence[Input], least: int = 1) -> list[tuple[str, ...]]:
    texts = [(given,) if isinstance(given, str) else tuple(given) for given in inputs]
    for given in texts:
        if not least <= len(given) <= 2:
            wanted = "one, or a pair" if least == 1 else "a pair, for which this was trained"
            raise UsageProblem(f"{len(given)} texts together, such as {given[:3]}; give {wanted}")
    return texts
