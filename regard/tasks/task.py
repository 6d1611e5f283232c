"""A task is an objective that also predicts and scores: what an encoder is fine-tuned for."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.data.framed import Examples, Framed
from regard.data.reading import Reading
from regard.models.encoder import Role
from regard.models.published import Published
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import states_of
from regard.rows import Rows
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader

MULTI_LABEL = "multi_label_classification"  # a `problem_type` of Hugging Face transformers
SHOWN = 10  # unseen labels that a warning names


class Task(Objective):
    """What it is asked, of which head, and how its answers are read.

    `Data` is what `read` makes of a file (it has `lines`, the facts to tell), inputs are what a person gives, and an
    answer is what a person gets for one of them.
    """

    role: ClassVar[Role]  # the head that answers
    outputs: int  # of that head
    watched: str  # the score by which weights are chosen
    language_weight: ClassVar[float | None] = None  # of language modelling beside it; by default as the model has it

    @classmethod
    @abstractmethod
    def read(cls, path: str | Path, reading: Reading) -> Any:
        """The examples of a file."""

    @classmethod
    @abstractmethod
    def of(cls, data: Any) -> Task:
        """The task that a training file sets: its labels."""

    @classmethod
    @abstractmethod
    def load(cls, published: Published) -> Task:
        """The task that a folder's model was trained for."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What of the task stands in config.json."""

    def training_settings(self) -> dict[str, Any]:
        """What config.json must say beside `settings` as long as the model is in training: what `finish` settles."""
        return {}

    @abstractmethod
    def examples(self, reader: Reader, data: Any) -> Examples:
        """The data as rows, with what is wanted of each."""

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        return self.judge_states(model, states_of(model, batch), batch)

    @abstractmethod
    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        """How well the model answered, by the states of all tokens, (N, W), whoever had them read."""

    @abstractmethod
    def predict(self, reader: Reader, inputs: Sequence[Any]) -> list[Any]:
        """An answer for each input, in their order."""

    @abstractmethod
    def inputs(self, data: Any) -> Sequence[Any]:
        """The inputs of examples whose answers are known."""

    @abstractmethod
    def score(self, answers: Sequence[Any], data: Any) -> list[Score]:
        """How good answers to these inputs are."""

    @abstractmethod
    def metrics(self, data: Any) -> list[str]:
        """The keys of the scores on these examples: each can choose the best weights."""

    def check(self, data: Any) -> None:
        """Refuse examples of which this task can answer none."""

    def unseen(self, data: Any) -> dict[str, int]:
        """How often each label occurs in examples that the task does not have: every answer there is wrong."""
        return {}

    def begin(self, model: nn.Module) -> None:
        """Make ready a head that has learned the task before."""

    def tune(self, reader: Reader, data: Any) -> None:
        """Set what can only be set by looking at examples that were held out, once the weights are chosen."""

    def finish(self, model: nn.Module) -> None:
        """What is left to do when training has ended."""


def unseen_warnings(unseen: Mapping[str, int], source: str) -> list[str]:
    """A warning, if some labels of a file did not occur in training, with how often each does."""
    if not unseen:
        return []
    names = ", ".join(f"{name!r} ({count:,})" for name, count in list(unseen.items())[:SHOWN])
    names += ", ..." * (len(unseen) > SHOWN)
    count = f"{sum(unseen.values()):,} labels"
    return [f"warning: {source}: {count} did not occur in training and are counted as wrong: {names}"]


def label_settings(names: Sequence[str]) -> dict[str, Any]:
    """The names of labels, as everyone's config.json has them."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def label_names(published: Published, role: Role) -> tuple[str, ...]:
    """What a config.json calls the outputs of a head, or numbers where it does not."""
    head: Any = published.model.heads[role]
    named = published.theirs.get("id2label")
    names = named if isinstance(named, dict) else {}
    return tuple(str(names.get(str(number), f"LABEL_{number}")) for number in range(head.out.out_features))


def is_multi_label(published: Published) -> bool:
    """Whether each output of its classifier is a probability of its own."""
    return published.theirs.get("problem_type") == MULTI_LABEL


def filled(rows: Rows, scores: Tensor) -> Tensor:  # (N, ...) -> (B, T, ...)
    """Scores to choose among within each row: where there is no token they are the lowest."""
    missing = ~rows.real.view(len(rows), rows.longest, *[1] * (scores.dim() - 1))
    return rows.pad(scores).masked_fill(missing, torch.finfo(scores.dtype).min)


def told_if_cut(framed: Framed, longest: int) -> Framed:
    """The same rows, and a warning if some of them were truncated."""
    if framed.cut(longest):
        warnings.warn(f"some inputs are truncated to {longest} tokens", stacklevel=2)  # no count: to be said once
    return framed


def row_scores(reader: Reader, role: Role, framed: Framed, read: Callable[[Tensor], Tensor]) -> list[list[float]]:
    """What is read off the scores of each row, in the order of the rows."""
    found: list[list[float]] = [[]] * len(framed)
    for numbers, scores, _ in reader.scores(role, framed):
        for number, row in zip(numbers, read(scores.float()).tolist(), strict=True):
            found[number] = row
    return found
