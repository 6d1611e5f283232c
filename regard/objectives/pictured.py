"""A label for each picture; and what a teacher says of it besides (Hinton et al. 2015; DeiT, Touvron et al. 2020).

Letters: B pictures, C channels, V labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.augment import Augment
from regard.data.preprocessor import Preprocessor
from regard.layers.patches import Pictures
from regard.models.encoder import HeadedEncoder, Role
from regard.objectives.distilled import divergence
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted, scores_of

HEADS: tuple[Role, ...] = ("classify", "taught")  # whose mean scores a picture
SMALL = 64  # pixels of a side, up to which pictures are small: a batch of them leaves a GPU idle


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model that knows the labels already, and is asked about the same pictures, changed as they are."""

    model: HeadedEncoder
    preprocessor: Preprocessor
    order: tuple[int, ...]  # where the student's labels are among the teacher's
    kind: Literal["hard", "soft"] = "hard"  # its best label, or how likely it finds each
    weight: float = 0.5  # of what it says beside the labels
    temperature: float = 3.0  # softens what a soft one says

    @torch.no_grad()
    def says(self, pixels: Tensor) -> Tensor:  # (B, C, H, W) -> (B, V)
        self.model.eval().to(pixels.device)
        size = self.preprocessor.fixed or (pixels.shape[2], pixels.shape[3])
        if size != pixels.shape[2:]:
            pixels = F.interpolate(pixels, size=size, mode="bilinear", antialias=True, align_corners=False)
        scores = mean_scores(self.model, Pictures((self.preprocessor.normal(pixels),)))
        same = self.order == tuple(range(len(self.order)))
        return scores if same else torch.stack([scores[:, place] for place in self.order], 1)

    def taught(self, scores: Tensor, said: Tensor) -> Tensor:  # (B, V), (B, V) -> ()
        """How far scores are from what it said, summed over pictures."""
        if self.kind == "hard":
            return F.cross_entropy(scores, said.argmax(-1), reduction="sum")
        return divergence(scores, said, self.temperature)


class Pictured(Objective):
    """Cross-entropy with the labels of pictures, changed and mixed at random while it is trained."""

    def __init__(
        self,
        preprocessor: Preprocessor,
        labels: int,
        *,
        store: Tensor | None = None,  # (pictures, H, W, C) bytes of all, on the device
        augment: Augment | None = None,
        smoothing: float = 0.0,
        teacher: Teacher | None = None,
    ):
        super().__init__()
        self.preprocessor, self.labels, self.smoothing = preprocessor, labels, smoothing
        self.augment, self.teacher = augment or Augment(), teacher
        self._store = (store,)  # in a tuple, it is nothing that is saved
        self.steady = preprocessor.fixed is not None and max(preprocessor.fixed) <= SMALL

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        pixels, wanted = self.pixels(batch), batch["wanted"]
        shares = F.one_hot(wanted, self.labels).float()  # (B,) -> (B, V)
        if self.training:
            with torch.autocast(pixels.device.type, enabled=False):
                pixels, shares = self.augment(pixels, shares)
        scores = head_scores(model, Pictures((self.preprocessor.normal(pixels),)), self)
        right = sum(scores.values()).argmax(-1) == shares.argmax(-1)  # type: ignore[union-attr]
        loss = cross_entropy(scores["classify"], shares, self.smoothing)
        parts = {"right": right.sum()}
        if self.teacher is not None:
            taught = self.teacher.taught(scores.get("taught", scores["classify"]), self.teacher.says(pixels))
            loss = (1 - self.teacher.weight) * loss + self.teacher.weight * taught
            parts["taught_loss"] = taught.detach()
        elif "taught" in scores:  # nobody teaches the second token: it learns the labels too
            loss = (loss + cross_entropy(scores["taught"], shares, self.smoothing)) / 2
        return Result(loss, counted(wanted), parts)

    def pixels(self, batch: Batch) -> Tensor:  # (B, C, H, W), from 0 to 1
        (store,) = self._store
        found = batch["pixels"] if store is None else store[batch["numbers"].ids]
        return self.preprocessor.scaled(found)


def cross_entropy(scores: Tensor, shares: Tensor, smoothing: float) -> Tensor:  # (B, V), (B, V) -> ()
    return F.cross_entropy(scores, shares, label_smoothing=smoothing, reduction="sum")


def head_scores(model: nn.Module, pictures: Pictures, asker: Any) -> dict[Role, Tensor]:  # (B, V) each
    """What each head that labels pictures makes of them."""
    encoder = cast(HeadedEncoder, model).encoder
    states, rows = model(pictures), encoder.rows(pictures)
    roles = [role for role in HEADS if role in model.heads] or HEADS[:1]  # type: ignore[operator]
    return {role: scores_of(model, role, states, rows, asker).float() for role in roles}


def mean_scores(model: nn.Module, pictures: Pictures) -> Tensor:  # (B, V)
    """DeiT's two heads are asked alike."""
    return torch.stack([*head_scores(model, pictures, model).values()]).mean(0)
