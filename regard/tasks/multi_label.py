"""Any number of labels for a text or a pair of texts: each label has a probability of its own, the sigmoid of its
score, and holds from a threshold on.  Saved as Hugging Face transformers has it: `multi_label_classification`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.framed import Examples
from regard.data.labelled import LabelMap
from regard.data.multi_labelled import MultiLabelled, read_multi_labelled
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import counted
from regard.tasks.classify import Input, scores_for, text_scores, texts_of
from regard.tasks.label_metrics import exact_sets, f1_of, f1_of_sets
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import MULTI_LABEL, Task, label_names, label_settings

THRESHOLD = "regard_threshold"  # what a config.json of ours calls the probability from which on a label holds
DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True)
class JudgedLabels:
    """The labels that hold of a text, the most probable first, and how probable every label is."""

    labels: list[str]
    probabilities: dict[str, float]


class MultiLabel(Task):
    role = "classify"
    watched = "f1_micro"

    def __init__(self, labels: LabelMap, threshold: float = DEFAULT_THRESHOLD):
        super().__init__()
        self.labels, self.outputs, self.threshold = labels, len(labels), check_threshold(threshold)

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> MultiLabelled:
        return read_multi_labelled(path, reading)

    @classmethod
    def of(cls, data: MultiLabelled) -> MultiLabel:
        labels = LabelMap.of(chain.from_iterable(data.label_sets))
        if not labels.names:
            raise Problem(f"{data.source}: no example has a label; nothing can be learned")
        if len(set(data.labels)) == 1:
            raise Problem(f"{data.source}: all examples have the labels {data.labels[0]}; nothing can be learned")
        return cls(labels)

    @classmethod
    def load(cls, published: Published) -> MultiLabel:
        threshold = published.theirs.get(THRESHOLD)
        known = isinstance(threshold, int | float) and 0 < threshold < 1
        return cls(LabelMap(label_names(published, "classify")), float(threshold) if known else DEFAULT_THRESHOLD)  # type: ignore[arg-type]

    def settings(self) -> dict[str, Any]:
        return {**label_settings(self.labels.names), "problem_type": MULTI_LABEL, THRESHOLD: self.threshold}

    def examples(self, reader: Reader, data: MultiLabelled) -> Examples:
        sets = data.label_sets
        self.labels.ids([*chain.from_iterable(sets)], label_places(data))  # refuses one that is not learned
        wanted = indicators(sets, self.labels.names).astype(np.float32)
        framed = reader.framed(data.texts)
        return Examples(framed, wanted, notes=framed.cut(reader.longest))

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        """Binary cross-entropy, the mean over labels."""
        scores, wanted = text_scores(model, states, batch, self), batch["wanted"]  # (B, V) both
        losses = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none").mean(-1)  # (B, V) -> (B,)
        right = ((scores > 0) == (wanted > 0)).all(-1)  # (B, V) -> (B,)
        return Result(losses.sum(), counted(wanted), {"right": right.sum()})

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[JudgedLabels]:
        scores = scores_for(reader, texts_of(inputs), symmetric=False)
        return judged_labels(scores, self.labels.names, self.threshold)

    def inputs(self, data: MultiLabelled) -> list[tuple[str, ...]]:
        return data.texts

    def check(self, data: MultiLabelled) -> None:
        self.labels.check(chain.from_iterable(data.label_sets), data.source)

    def unseen(self, data: MultiLabelled) -> dict[str, int]:
        return self.labels.unseen(chain.from_iterable(data.label_sets))

    def metrics(self, data: MultiLabelled) -> list[str]:
        return ["f1_micro", "f1_macro", "exact match", *map(f1_of, self.every(data))]

    def every(self, data: MultiLabelled) -> list[str]:
        """The labels of the task, and then those of the examples that it does not have."""
        return [*self.labels.names, *LabelMap.of(self.unseen(data)).names]

    def score(self, answers: Sequence[JudgedLabels], data: MultiLabelled) -> list[Score]:
        self.check(data)
        names = self.every(data)
        said, wanted = (indicators(sets, names) for sets in ([one.labels for one in answers], data.label_sets))
        micro, macro, *each = f1_of_sets(said, wanted, names)
        return [micro, macro, exact_sets(said, wanted), *each]


def check_threshold(threshold: float) -> float:
    if not 0 < threshold < 1:
        raise UsageProblem(f"threshold={threshold}: give a probability above 0 and below 1")
    return threshold


def judged_labels(scores: Tensor, names: Sequence[str], threshold: float) -> list[JudgedLabels]:  # (n, V)
    found = []
    for shares in scores.float().sigmoid().tolist():
        named = dict(zip(names, shares, strict=True))
        held = sorted((name for name in names if named[name] >= threshold), key=lambda name: -named[name])
        found.append(JudgedLabels(held, named))
    return found


def indicators(sets: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:  # (n, V) bool
    """Which labels each example has."""
    known = {name: number for number, name in enumerate(names)}
    found = np.zeros((len(sets), len(names)), bool)
    for row, labels in enumerate(sets):
        found[row, [known[label] for label in labels]] = True
    return found


def label_places(data: MultiLabelled) -> Any:
    """Where the label of a number, of all labels of all examples, stands."""
    rows = [row for row, names in enumerate(data.label_sets) for _ in names]
    return lambda number: data.place(rows[number])
