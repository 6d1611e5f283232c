"""What a run that learns pictures is told, and what holds if nothing is said.  No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.data.reading import Reading
from regard.errors import UsageProblem
from regard.training.settings import Launch, Schedule

Crop = Literal["", "none", "padded", "resized"]
Distillation = Literal["hard", "soft"]


@dataclass(frozen=True)
class AugmentSettings:
    """How pictures are changed at random; 0 is not at all."""

    flip: bool = True  # left and right
    crop: Crop = ""  # by default padded for small pictures, resized for large ones
    least: float = 0.25  # of the area that a resized crop keeps
    degrees: float = 15.0  # that a picture is turned by; it is slanted as well
    recolour: float = 0.5
    changed: float = 0.5  # how often a picture is turned, and how often recoloured
    one_of_many: float = 0.0  # how often one change of many, of any strength, is made beside these (TrivialAugment)
    reach: float = 1.0  # of how far that one may turn, slant and move a picture
    erase: float = 0.25  # how often a rectangle is erased
    blend: float = 0.8  # mixup's Beta(a, a)
    cut: float = 1.0  # CutMix's
    mixed: float = 0.5  # how often pictures are mixed

    def __post_init__(self) -> None:
        for name in ("degrees", "recolour", "blend", "cut"):
            if not 0 <= getattr(self, name) < 90:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 0 (not at all) or more")
        for name in ("changed", "one_of_many", "reach", "erase", "mixed"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give a share from 0 to 1")
        if not 0 < self.least <= 1:
            raise UsageProblem(f"least={self.least}: give a share of the area, above 0 and at most 1")


GENTLE = AugmentSettings(degrees=0.0, recolour=0.0, erase=0.0, blend=0.0, cut=0.0, mixed=0.0)


@dataclass(frozen=True)
class PictureSettings:
    train: tuple[str, ...] = ()
    dev: str = ""  # by default a tenth of what is trained on is held out
    test: str = ""
    reading: Reading = field(default_factory=Reading)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    smoothing: float = 0.1
    teacher: str = ""  # a folder of a model that labels these pictures
    distillation: Distillation = "hard"
    teacher_weight: float | None = None  # of what the teacher says; by default DeiT's: 0.5 of hard, 0.1 of soft
    temperature: float = 3.0
    epochs: float = 0.0  # 0: 100 from nothing, 5 to fine-tune
    batch: int = 128
    rate: float = 0.0  # 0: 4e-4 from nothing, 5e-5 to fine-tune
    schedule: Schedule = "cosine"
    warmup: float = 0.05  # share of the steps over which the rate rises
    weight_decay: float = 0.05
    clip: float = 1.0
    evaluations: int = 10
    best: str = "highest accuracy"
    patience: int = 0
    precision: Literal["", "float32", "bf16"] = ""  # by default bf16 on a GPU
    launch: Launch = "graphs"  # on one GPU, a batch goes through the layers in one launch
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch", "evaluations"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        for name in ("warmup", "teacher_weight"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give a share from 0 to 1")
        if not 0 <= self.smoothing < 1:
            raise UsageProblem(f"smoothing={self.smoothing}: give 0 (none) or more, below 1")
        if self.epochs < 0 or self.rate < 0 or self.temperature <= 0:
            told = f"epochs={self.epochs}, rate={self.rate}, temperature={self.temperature}"
            raise UsageProblem(f"{told}: give numbers above 0")


PICTURES = PictureSettings()
