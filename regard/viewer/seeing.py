"""Looking at what reads a picture: its patches are the tokens, after those that stand before them.

Letters: B rows, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.layers.patches import Pictures
from regard.models.encoder import HeadedEncoder
from regard.objectives.pictured import mean_scores
from regard.tasks.finetuned import Finetuned
from regard.tasks.image import PictureReader
from regard.tasks.task import is_multi_label
from regard.viewer.explain import Question
from regard.viewer.look import Attending, Look, Picture
from regard.viewer.seen import best, chances, explainer, told_of_length, watching
from regard.viewer.sides import Side

FIRST = ("[class]", "[teacher]")  # the tokens before the patches: DeiT's second learns from a teacher
SIDE = "picture"


@dataclass(frozen=True, eq=False)
class Seeing:
    """A picture as a model reads it, and whether it is asked for a label."""

    model: HeadedEncoder
    pixels: Tensor  # (1, C, height, width)
    labels: tuple[str, ...] = ()
    multi_label: bool = False  # each label has a probability of its own

    def scores(self, count: int) -> Tensor:  # (count, labels)
        return mean_scores(self.model, Pictures((self.pixels.expand(count, -1, -1, -1),)))

    def question(self, query: int) -> Question:
        """The label, if the class token is asked, or else a state; nobody looks at a patch that is hidden."""
        tokens = self.model.encoder.rows(Pictures((self.pixels,))).total
        with torch.inference_mode():
            wanted = int(self.scores(1)[0].argmax()) if self.labels and query == 0 else None

        def answer(rows: list[list[int]]) -> Tensor:  # (B, 1) or (B, W)
            if wanted is not None:
                return chances(self.scores(len(rows)), wanted, multi_label=self.multi_label)
            pictures = Pictures((self.pixels.expand(len(rows), -1, -1, -1),))
            return self.model(pictures)[self.model.encoder.rows(pictures).first + query]

        return Question(self.model, range(tokens), answer, lambda name: True)


def picture_reader(model: Any) -> PictureReader | None:
    """What reads pictures in a model, if it does."""
    reader = model.reader if isinstance(model, Finetuned) else model
    return reader if isinstance(reader, PictureReader) else None


def look_at_picture(model: Any, path: str | Path, name: str) -> Look:
    """A model that reads pictures, with its task if it has one."""
    reader: Any = picture_reader(model)
    pixels = reader.prepared(path)[None].to(reader.device)
    task: Any = model.task if isinstance(model, Finetuned) else None
    labels = task.labels.names if task else ()
    seeing = Seeing(reader.model, pixels, labels, bool(labels) and is_multi_label(reader.published))
    with watching(reader.model) as seen:
        reader.model(Pictures((pixels,)))
        seen.part()
    rows, columns = reader.model.encoder.embed.grid(tuple(pixels.shape[2:]))
    first = reader.model.encoder.config.embedding.tokens
    picture = Picture(reader.preprocessor.seen(pixels[0].cpu().numpy()), rows, columns, first)
    explain = explainer(reader.model, "encoder", seeing.question)
    told, layers = ["label", "state"] if labels else ["state"], seen.layers(slice(None), lambda name: True)
    attending = Attending("encoder", "Encoder", SIDE, SIDE, layers, False, told, explain)
    family = str(reader.published.theirs["model_type"])
    output = {"side": SIDE, "predictions": predictions(seeing)}
    notes = told_of_length(first + rows * columns, first + rows * columns)
    sides = {SIDE: side_of(rows, columns, first)}
    return Look(name or family, family, "encoder", sides, [attending], [], notes, output, {SIDE: picture})


@torch.inference_mode()
def predictions(seeing: Seeing) -> list[dict[str, Any]]:
    if not seeing.labels:
        return []
    [top] = best(seeing.scores(1), lambda label: seeing.labels[label], multi_label=seeing.multi_label)
    return [{"at": 0, "top": top}]


def side_of(rows: int, columns: int, first: int) -> Side:
    """The tokens before the patches, and each patch by its row and column, counted from 1."""
    patches = [f"{row}:{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    return Side([*FIRST[:first], *patches], [True] * first + [False] * len(patches), whole=True)
