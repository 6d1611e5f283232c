"""An encoder that was fine-tuned, with its task: what a person calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import change
from regard.models.encoder import EncoderConfig
from regard.models.heads import with_heads
from regard.models.published import Published
from regard.tasks.answer import Answer
from regard.tasks.choose import Choose
from regard.tasks.classify import Classify, Pair, Regress, Similar
from regard.tasks.metrics import Score
from regard.tasks.multi_label import MultiLabel
from regard.tasks.reader import LONGEST, Reader, tell_others, tokenizer_settings
from regard.tasks.reward import Reward
from regard.tasks.sentence_folder import ACTIVATION_KEYS, score_activation
from regard.tasks.tag import Tag
from regard.tasks.task import Task, is_multi_label, label_names
from regard.tasks.transformation import made_ready

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "pair": Pair,
    "similar": Similar,
    "regress": Regress,
    "multi-label": MultiLabel,
    "choose": Choose,
    "tag": Tag,
    "answer": Answer,
    "reward": Reward,
}
NAME = "regard_task"  # what a config.json of ours calls the task


class Finetuned:
    def __init__(self, reader: Reader, name: str, task: Task):
        self.reader, self.name, self.task = reader, name, task

    @property
    def model(self) -> Any:
        return self.reader.model

    def save(self, folder: str | Path, card: str = "") -> None:
        self.reader.save(folder, card)

    def __call__(self, *given: Any) -> Any:
        """The answer for one input: a text, two texts, ..."""
        return self.predict([given[0] if len(given) == 1 else given])[0]

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        return self.task.predict(self.reader, inputs)

    def embed(self, texts: Sequence[str], **settings: Any) -> np.ndarray:
        """The vectors of texts, as its encoder has them; the settings are those of `Reader.embed`."""
        return self.reader.embed(texts, **settings)

    def tune(self, data: Any) -> None:
        """Let the task set what only examples that were held out can tell; config.json keeps it."""
        self.task.tune(self.reader, data)
        self.reader.published.theirs.update(self.task.settings())

    def evaluate(self, data: Any) -> list[Score]:
        return self.task.score(self.predict(self.task.inputs(data)), data)


def finetuned(reader: Reader) -> Reader | Finetuned:
    """The encoder with its task, if its folder carries the head of one.  It reads as much of a text as it did when it
    was trained."""
    name = task_name(reader.published)
    if name is None:
        return reader
    declared = tokenizer_settings(reader.tokenizer).get(LONGEST)
    if isinstance(declared, int) and declared > 0:  # an absurdly large one means that nobody knew
        reader.longest = min(reader.longest, declared)
    task = TASKS[name].load(reader.published)
    if isinstance(task, Regress):
        task.activation = score_activation(reader.published.theirs, reader.pooling.model_config)
    return Finetuned(reader, name, task)


def task_name(published: Published) -> str | None:
    """What a folder's model was fine-tuned for: what its config says, or what its heads can do."""
    named = published.theirs.get(NAME)
    if named in TASKS and TASKS[named].role in published.layout.roles:
        return named
    if "classify" in published.layout.roles and is_multi_label(published):
        return "multi-label"
    if "classify" in published.layout.roles and (
        published.theirs.get("problem_type") == "regression" or len(label_names(published, "classify")) == 1
    ):
        return "regress"
    return next((name for name, task in TASKS.items() if task.role in published.layout.roles), None)


def with_task(
    reader: Reader, name: str, task: Task, config: EncoderConfig | None = None, longest: int = sys.maxsize
) -> tuple[Finetuned, list[str]]:
    """An encoder made ready to learn a task from rows of at most `longest` pieces, and the names of the tensors of its
    head that are new."""
    reader, added = made_ready(reader)
    if added and config:
        config = change(config, "embedding.vocab", reader.model.encoder.config.embedding.vocab)
    settings, same = {**task.settings(), NAME: name}, goes_on(reader.published, name, task)
    theirs = {key: value for key, value in reader.published.theirs.items() if key not in ACTIVATION_KEYS}
    published, fresh = with_heads(
        replace(reader.published, theirs=theirs), {task.role}, task.outputs, config=config, settings=settings, same=same
    )
    if same:
        task.begin(published.model)
    reader = Reader(published, reader.tokenizer)
    reader.longest = min(reader.longest, longest)
    tell_others(reader)
    return Finetuned(reader, name, task), [*fresh, *added]


def goes_on(published: Published, name: str, task: Task) -> bool:
    """Whether its head has learned this task already, for the same labels."""
    if task.role not in published.layout.roles or published.theirs.get(NAME, name) != name:
        return False
    if is_multi_label(published) != isinstance(task, MultiLabel):  # its outputs mean something else
        return False
    return task.settings()["id2label"] == type(task).load(published).settings()["id2label"]
