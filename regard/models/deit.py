"""DeiT (Touvron et al., 2020): a ViT with a second token before the patches, which learns what a teacher says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.checkpoints.rules import Rules
from regard.models.encoder import Head
from regard.models.published import EncoderFamily, HeadNames
from regard.models.vit import BODY as VIT_BODY
from regard.models.vit import ONLY, POOLER, SETTINGS, VisionConfig, VisionEncoder, begin_vision, vit
from regard.rows import Rows


def deit(layers=12, width=768, heads=12, **settings) -> VisionConfig:
    return vit(layers, width, heads, tokens=2, **settings)


PRESETS = {
    "deit-tiny": deit(width=192, heads=3),
    "deit-small": deit(width=384, heads=6),
    "deit-base": deit(),
    "deit-cifar": deit(7, 384, 12, size=4, picture=32, inner=384),
}

BODY = Rules((VIT_BODY.rows[0], ("encoder.embed.first.1", "embeddings.distillation_token"), *VIT_BODY.rows[1:]))


def second(states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, W)
    return states[rows.first + 1]


@dataclass(frozen=True)
class TaughtNames(HeadNames):
    """The head of the second token; the labels of a picture are scored by the mean of both heads."""

    def make(self, config: Any, outputs: Mapping[str, int]) -> Head:
        head = super().make(config, outputs)
        head.pool = second
        return head


FAMILY = EncoderFamily(
    deit(),
    SETTINGS,
    BODY,
    "deit.",
    {
        "DeiTModel": (POOLER,),
        "DeiTForImageClassification": (HeadNames("classify", "classifier", pool="first"),),
        "DeiTForImageClassificationWithTeacher": (
            HeadNames("classify", "cls_classifier", pool="first"),
            TaughtNames("taught", "distillation_classifier"),
        ),
    },
    kind=VisionEncoder,
    begin=begin_vision,
    only=ONLY,
)
