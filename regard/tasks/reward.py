"""What a text is worth, learned from pairs of which people preferred one (Stiennon et al., 2020): a number, read off
the token that classifiers are read off."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.framed import Examples, Framed, Row
from regard.data.preferences import Preferences, fitting, read_preferences
from regard.data.reading import Reading
from regard.errors import Problem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.preferred import preferred
from regard.objectives.reading import scores_of
from regard.tasks.classify import Input, shift, texts_of
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, label_settings, row_scores


class Reward(Task):
    """A text that follows a prompt is read as one with it.  What is too long loses its beginning."""

    role = "classify"
    outputs = 1
    watched = "accuracy"
    language_weight = 0.0  # rejected texts are not to be told too

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Preferences:
        return read_preferences(path, reading)

    @classmethod
    def of(cls, data: Preferences) -> Reward:
        return cls()

    @classmethod
    def load(cls, published: Published) -> Reward:
        return cls()

    def settings(self) -> dict[str, Any]:
        return {**label_settings(["LABEL_0"]), "problem_type": "regression"}

    def examples(self, reader: Reader, data: Preferences) -> Examples:
        room = reader.longest - reader.tokenizer.frame.around()
        answers = [reader.reading.encode_batch([pair[side] for pair in data.pairs]) for side in (1, 2)]
        kept, first = fitting([max(map(len, pair)) for pair in zip(*answers, strict=True)], room)
        notes = [] if first is None else [too_long(data, len(data) - len(kept), first, room)]
        if not len(kept):
            raise Problem(notes[0].removeprefix("warning: "))
        pairs = [data.pairs[number] for number in kept]
        framed, cut = laid(reader, [prompt + text for prompt, *texts in pairs for text in texts])
        notes += [f"warning: {cut:,} texts lose the beginning of their prompts, beyond {room} pieces"] * bool(cut)
        groups = np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int64)
        return Examples(framed, np.zeros(len(pairs), np.int64), groups, notes)

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        worth = scores_of(model, "classify", states, batch["tokens"].rows, self).float()  # (N, W) -> (B, 1)
        return preferred(worth.view(-1, 2))

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[float]:
        framed, cut = laid(reader, ["".join(texts) for texts in texts_of(inputs)])
        if cut:
            warnings.warn(f"{cut:,} texts are longer than {reader.longest} pieces; their ends are read", stacklevel=2)
        return [worth for [worth] in row_scores(reader, "classify", framed, lambda scores: scores)]

    def inputs(self, data: Preferences) -> list[tuple[str, str]]:
        """Both texts of each pair, the chosen one first."""
        return [(prompt, text) for prompt, *texts in data.pairs for text in texts]

    def metrics(self, data: Preferences) -> list[str]:
        return ["accuracy", "margin"]

    def score(self, answers: Sequence[float], data: Preferences) -> list[Score]:
        pairs = np.asarray(answers).reshape(-1, 2)
        right = int((pairs[:, 0] > pairs[:, 1]).sum())
        margin = float((pairs[:, 0] - pairs[:, 1]).mean())
        told = f"{right} of {len(pairs)}"
        return [Score("accuracy", 100 * right / len(pairs), "pairs", told), Score("margin", margin, "mean", told)]

    @torch.no_grad()
    def tune(self, reader: Reader, data: Preferences) -> None:
        """Let held-out texts be worth nothing on average: pairs tell of differences alone."""
        shift(reader.model, -float(np.mean(self.predict(reader, self.inputs(data)))))


def laid(reader: Reader, texts: Sequence[str]) -> tuple[Framed, int]:
    """Texts as rows, each without the beginning that there is no room for; and of how many that is true."""
    frame, room = reader.tokenizer.frame, reader.longest - reader.tokenizer.frame.around()
    pieces = reader.reading.encode_batch(texts)
    rows: list[Row] = [frame.row(ids[max(len(ids) - room, 0) :], longest=reader.longest) for ids in pieces]
    return Framed.of(rows), sum(len(ids) > room for ids in pieces)


def too_long(data: Preferences, count: int, first: int, room: int) -> str:
    return (
        f"warning: {count:,} of {len(data):,} pairs are left out, the first at {data.place(first)}: a text is "
        f"longer than the {room} pieces that are read. Shorten it, or have more read (--longest)."
    )
