"""A model that reads pictures, with how it wants them; and the task to label them.

Letters: n pictures, C channels, W width, V labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.galleries import read_gallery
from regard.data.images import Gallery, read_picture
from regard.data.labelled import LabelMap
from regard.data.preprocessor import Preprocessor
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem
from regard.layers.patches import Pictures
from regard.layers.pooling import first
from regard.models.encoder import Role
from regard.models.folder import load_published, save_files
from regard.models.heads import new_encoder, with_heads
from regard.models.published import Published
from regard.objectives.pictured import mean_scores
from regard.tasks.classify import Judged
from regard.tasks.device import moved
from regard.tasks.finetuned import NAME as TASK
from regard.tasks.finetuned import Finetuned
from regard.tasks.label_metrics import accuracy, macro_f1, matthews
from regard.tasks.metrics import Score
from regard.tasks.multi_label import DEFAULT_THRESHOLD, JudgedLabels, judged_labels
from regard.tasks.task import is_multi_label, label_names, label_settings

TOGETHER = 64  # pictures of a batch in use; a GPU takes more
ON_A_GPU = 1024
NAME = "image"  # of the task
Given = str | Path | np.ndarray  # a path, or the bytes of a picture, (height, width, channels)


class PictureReader:
    """A model that reads pictures, with its preprocessor."""

    def __init__(self, published: Published, preprocessor: Preprocessor):
        self.published, self.preprocessor = published, preprocessor
        self.model: Any = published.model

    @classmethod
    def load(
        cls, folder: str | Path, device: torch.device | str | None = None, ignore: Sequence[str] = ()
    ) -> PictureReader:
        published = load_published(Path(folder), ignore)
        moved(published.model, device)
        return cls(published, Preprocessor.load(Path(folder), *shape_of(published.model.encoder.config)))

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the folder that we and others read; a card is its README."""
        files = {**self.published.files(), **self.preprocessor.files()}
        save_files(Path(folder), files | ({"README.md": card.encode()} if card else {}))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def prepared(self, given: Given) -> Tensor:  # (C, height, width)
        """A picture as the model reads it."""
        pixels = given if isinstance(given, np.ndarray) else read_picture(given, self.preprocessor.channels)
        if pixels.dtype != np.uint8 or pixels.ndim != 3:
            raise UsageProblem(f"a picture is {pixels.dtype} of shape {pixels.shape}; give bytes, (height, width, 3)")
        return self.preprocessor.normal(self.preprocessor.scaled(torch.tensor(self.preprocessor.fitted(pixels))))

    @torch.inference_mode()
    def embed(self, pictures: Sequence[Given], **settings: Any) -> np.ndarray:  # (n, W)
        """A vector a picture: the state of its first token."""
        if settings:
            raise UsageProblem(f"{', '.join(settings)}: a picture's vector is the state of its first token alone")
        parts = [np.zeros((0, self.model.encoder.config.width), np.float32)]
        for some in self.batches(pictures):
            states = first(self.model(some), self.model.encoder.rows(some))
            parts.append(states.float().cpu().numpy())
        return np.concatenate(parts)

    @torch.inference_mode()
    def scores(self, pictures: Iterable[Given]) -> Tensor:  # (n, V)
        """What its heads make of each picture, in their order."""
        found = [mean_scores(self.model, some).cpu() for some in self.batches(pictures)]
        return torch.cat(found) if found else torch.zeros(0, 1)

    @torch.inference_mode()
    def scores_of(self, pixels: Tensor) -> Tensor:  # (n, height, width, C) bytes -> (n, V)
        """Likewise of pictures that are resized and cropped already."""
        found = []
        for some in pixels.split(self.together):
            normal = self.preprocessor.normal(self.preprocessor.scaled(some.to(self.device)))
            found.append(mean_scores(self.model, Pictures((normal,))).cpu())
        return torch.cat(found)

    def batches(self, pictures: Iterable[Given]) -> Iterator[Pictures]:
        waiting = iter(pictures)
        while some := [self.prepared(one) for _, one in zip(range(self.together), waiting, strict=False)]:
            yield Pictures.of(some).to(self.device)

    @property
    def together(self) -> int:
        return TOGETHER if self.device.type == "cpu" else ON_A_GPU


def shape_of(config: Any) -> tuple[int, int]:
    """The side of the pictures that a model is for, and their channels."""
    of = getattr(config, "embedding", config)
    return of.picture, of.channels


@dataclass(frozen=True, eq=False)
class Shown(Sequence[Given]):
    """The pictures of a gallery, each read when it is its turn."""

    gallery: Gallery

    def __len__(self) -> int:
        return len(self.gallery)

    def __getitem__(self, number: Any) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.gallery.read(number)


@dataclass(frozen=True)
class JudgedPicture(Judged):
    """The label of a picture, and how probable each is."""

    picture: str = ""  # its path, where it has one


@dataclass(frozen=True)
class JudgedPictureLabels(JudgedLabels):
    """The labels that hold of a picture, and how probable every label is."""

    picture: str = ""  # its path, where it has one


def name_of(given: Given) -> str:
    return "" if isinstance(given, np.ndarray) else str(given)


class Image:
    """A label for a picture: all that is asked of a task once it has learned.  What it learns by is an objective of its
    own, `objectives.pictured`, which knows where the pixels lie."""

    watched = "accuracy"

    def __init__(self, labels: LabelMap):
        self.labels = labels

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Gallery:
        found = read_gallery(path, replace(reading, unlabelled=reading.unmapped))
        renames = reading.renames
        return replace(found, labels=[renames.get(label, label) for label in found.labels]) if renames else found

    @classmethod
    def of(cls, data: Gallery) -> Image:
        labels = LabelMap.of(data.labels)
        if len(labels) < 2:
            raise Problem(f"{data.source}: all pictures have the label {labels.names[0]!r}; give two or more kinds")
        return cls(labels)

    @classmethod
    def load(cls, published: Published) -> Image:
        return cls(LabelMap(label_names(published, "classify")))

    def settings(self) -> dict[str, Any]:
        return {**label_settings(self.labels.names), "problem_type": "single_label_classification"}

    def wanted(self, data: Gallery) -> np.ndarray:  # (n,)
        """The number of each picture's label; one that was never learned is refused."""
        return np.array(self.labels.ids(data.labels, data.place), np.int64)

    def predict(self, reader: PictureReader, inputs: Sequence[Given]) -> list[Any]:
        if not len(inputs):
            return []
        names = inputs.gallery.names if isinstance(inputs, Shown) else [name_of(given) for given in inputs]
        return self.judged(reader.scores(inputs), names)

    def judged(self, scores: Tensor, names: Sequence[str]) -> list[Any]:  # (n, V)
        found = list[Any]()
        for shares, name in zip(scores.float().softmax(-1).tolist(), names, strict=True):
            best = max(range(len(shares)), key=shares.__getitem__)
            named = dict(zip(self.labels.names, shares, strict=True))
            found.append(JudgedPicture(self.labels.names[best], shares[best], named, name))
        return found

    def inputs(self, data: Gallery) -> Shown:
        return Shown(data)

    def check(self, data: Gallery) -> None:
        """Refuse pictures of which none has a label that was learned."""
        self.labels.check(data.labels, data.source)

    def unseen(self, data: Gallery) -> dict[str, int]:
        return self.labels.unseen(data.labels)

    def metrics(self, data: Gallery) -> list[str]:
        return ["accuracy", "f1_macro", "matthews"]

    def score(self, answers: Sequence[Judged], data: Gallery) -> list[Score]:
        self.check(data)
        said = [answer.label for answer in answers]
        return [accuracy(said, data.labels), macro_f1(said, data.labels), matthews(said, data.labels)]


class MultiLabelImage(Image):
    """Any number of labels for a picture, as a folder that was published has learned to give.  It is not trained here,
    and files of pictures have one label each, so that there is nothing to score it by."""

    def judged(self, scores: Tensor, names: Sequence[str]) -> list[Any]:  # (n, V)
        every = judged_labels(scores, self.labels.names, DEFAULT_THRESHOLD)
        return [
            JudgedPictureLabels(one.labels, one.probabilities, name) for one, name in zip(every, names, strict=True)
        ]

    def check(self, data: Gallery) -> None:
        raise Problem(f"{data.source} has one label per picture, and the model gives several; it cannot be scored here")


def seen(reader: PictureReader) -> PictureReader | Finetuned:
    """The model with its task, if its folder carries a head that labels pictures."""
    if "classify" not in reader.published.layout.roles:
        return reader
    kind = MultiLabelImage if is_multi_label(reader.published) else Image
    return labelling(reader, kind.load(reader.published))


def labelling(reader: PictureReader, task: Image) -> Finetuned:
    return Finetuned(cast(Any, reader), NAME, cast(Any, task))


def new_labeller(family: str, config: Any, task: Image, *, taught: bool) -> Finetuned:
    """A model that has learned nothing, made to label pictures; by two heads if it can be `taught`."""
    published = new_encoder(family, config, roles_of(family, taught), len(task.labels))
    published.theirs.update({**task.settings(), TASK: NAME})
    return labelling(PictureReader(published, Preprocessor.square(*shape_of(config))), task)


def with_labels(reader: PictureReader, task: Image, config: Any, *, taught: bool) -> tuple[Finetuned, list[str]]:
    """A model that has learned, made to label these pictures; and the names of tensors that are new."""
    published = reader.published
    known = Image.load(published).labels if "classify" in published.layout.roles else None
    roles = roles_of(str(published.theirs.get("model_type")), taught or "taught" in published.layout.roles)
    settings = {**task.settings(), TASK: NAME}
    same = known == task.labels and not is_multi_label(published)
    changed, fresh = with_heads(published, roles, len(task.labels), config=config, settings=settings, same=same)
    return labelling(PictureReader(changed, reader.preprocessor), task), fresh


def roles_of(family: str, taught: bool) -> set[Role]:
    """DeiT has a token that learns from a teacher; others learn both by one head."""
    return {"classify", "taught"} if family == "deit" and taught else {"classify"}
