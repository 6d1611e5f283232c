"""What a run is told, and what holds if nothing is said.  No torch here: the command line shows these as defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.errors import UsageProblem
from regard.training.settings import OptimizerConfig, TrainingConfig


def for_translation() -> TrainingConfig:
    return TrainingConfig(
        steps=20_000, evaluate_every=500, save_every=500, best="highest bleu",
        optimizer=OptimizerConfig(rate=1e-3, warmup=1000),
    )  # fmt: skip


@dataclass(frozen=True)
class TranslationSettings:
    train: tuple[str, ...] = ()  # a source file and a target file
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "characters"] = "bpe"
    vocab: int = 8000
    shared: bool = True  # one vocabulary for both languages
    lowercase: bool = False
    longest: int = 256  # pieces; longer pairs are left out of training
    budget: int = 4096  # tokens of a micro-batch
    smoothing: float = 0.1
    encoding: str = "utf-8"
    training: TrainingConfig = field(default_factory=for_translation)

    def __post_init__(self) -> None:
        for name in ("longest", "budget"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        if not 0 <= self.smoothing < 1:
            raise UsageProblem(f"smoothing={self.smoothing}: give 0 (none) or more, below 1")


TRANSLATION = TranslationSettings()
