"""What a run is told, and what holds if nothing is said.  No torch here: the command line shows these as defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from regard.data.reading import Reading
from regard.errors import UsageProblem
from regard.training.settings import Launch, OptimizerConfig, Schedule, TrainingConfig


def for_translation() -> TrainingConfig:
    return TrainingConfig(
        steps=20_000, evaluate_every=500, save_every=500, best="highest bleu",
        optimizer=OptimizerConfig(rate=1e-3, warmup=1000),
    )  # fmt: skip


@dataclass(frozen=True)
class TranslationSettings:
    train: tuple[str, ...] = ()  # a source file and a target file; with a template, one file of examples
    dev: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "treebank", "characters"] = "bpe"
    vocab: int = 8000
    shared: bool = True  # one vocabulary for both languages
    lowercase: bool = False
    vectors: str = ""  # a file of word vectors that the embedding of a preset begins with
    longest: int = 256  # pieces; longer pairs are left out of training
    budget: int = 4096  # tokens of a micro-batch
    smoothing: float = 0.1
    template: str = ""  # what makes a text of an example
    reading: Reading = field(default_factory=Reading)  # of examples
    encoding: str = "utf-8"
    training: TrainingConfig = field(default_factory=for_translation)

    def __post_init__(self) -> None:
        for name in ("longest", "budget"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        if not 0 <= self.smoothing < 1:
            raise UsageProblem(f"smoothing={self.smoothing}: give 0 (none) or more, below 1")


TRANSLATION = TranslationSettings()


def check_varied(much: float) -> None:
    if not 0 <= much <= 1:
        raise UsageProblem(f"varied={much}: give 0 (recordings as they are) to 1")


@dataclass(frozen=True)
class FinetuningSettings:
    train: str = ""
    dev: str = ""
    test: str = ""
    reading: Reading = field(default_factory=Reading)
    vectors: str = ""  # a file of word vectors that the embedding of a preset begins with
    epochs: float = 0.0  # 0: by the number of examples
    batch: int = 32  # examples of a step
    ulmfit: bool | None = None  # by default for recurrent models that have learned; what is said below goes before it
    rate: float = 0.0  # 0: by the model
    schedule: Schedule | None = None  # by default linear, or ULMFiT's slanted
    discriminative: float | None = None  # by default 1, or ULMFiT's 2.6: each part's rate is that above it, over this
    unfreeze: float | None = None  # epochs until one more part learns, from the top; by default 0, all from the first
    warmup: float = 0.1  # share of the steps over which the rate rises
    weight_decay: float = 0.01
    language_weight: float | None = None  # of telling the texts beside the task; by default GPT's 0.5 for its kind
    threshold: float | None = None  # multi-label: the probability from which on a label holds; by default 0.5
    longest: int = 512  # pieces of a row, or fewer where the model's places end
    best: str = ""  # as in "highest matthews"; by default as the task has it
    patience: int = 0
    precision: Literal["", "float32", "bf16"] = ""  # by default bf16 on a GPU
    launch: Launch = "graphs"  # on one GPU, a batch goes through the layers in one launch
    seed: int = 0
    varied: float = 0.0  # how much recordings are changed each time, from 0 to 1: their speed, tone and noise
    frozen: bool | None = None  # of sound, the convolutions: by default those of a model that has learned

    def __post_init__(self) -> None:
        if self.batch < 1 or self.longest < 1:
            raise UsageProblem(f"batch={self.batch}, longest={self.longest}: give 1 or more")
        if self.epochs < 0 or self.rate < 0:
            raise UsageProblem(f"epochs={self.epochs}, rate={self.rate}: give more than 0, or 0 to leave it to regard")
        if not 0 <= self.warmup <= 1:
            raise UsageProblem(f"warmup={self.warmup}: give a share of the steps, from 0 to 1")
        if not 0 <= (self.unfreeze or 0) < math.inf:
            raise UsageProblem(f"unfreeze={self.unfreeze}: give epochs, or 0 to let all learn from the first step")
        if not 0 <= (self.language_weight or 0) < math.inf:
            raise UsageProblem(f"language_weight={self.language_weight}: give 0 (none) or more")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise UsageProblem(f"threshold={self.threshold}: give a probability above 0 and below 1")
        check_varied(self.varied)


FINETUNING = FinetuningSettings()


@dataclass(frozen=True)
class PretrainingSettings:
    texts: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()  # held-out text
    objective: str = ""  # by default the family's own
    pieces: Literal["", "bpe", "byte-bpe", "wordpiece", "unigram", "words", "treebank", "characters"] = ""  # likewise
    vocab: int = 30_000  # of the vocabulary that is learned, where none is given
    lowercase: bool = False
    vectors: str = ""  # a file of word vectors that the embedding of a preset begins with
    share: float = 0.15  # of the pieces that are hidden
    whole_words: bool = False
    longest: int = 128  # tokens of a row,
    later_longest: int = 0  # and of those at the end; 0: as before
    later: float = 0.1  # the share of the steps that have the later length
    budget: int = 16_384  # tokens of a micro-batch
    accumulate: int = 1
    steps: int = 100_000
    rate: float = 0.0  # 0: 1e-4, or 1e-2 where it is relative
    relative: bool | None = None  # to the size that a tensor's numbers begin with; by default for T5
    schedule: Schedule = "linear"
    warmup: float = 0.1  # share of the steps over which the rate rises
    weight_decay: float | None = None  # by default 0.01, or none where rates are relative
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float = 1.0  # the longest gradient; 0: any
    discriminative: float = 1.0  # each part's rate is that of the part above it, divided by this
    activation: float = 0.0  # AWD-LSTM's penalties: on large states,
    temporal: float = 0.0  # and on states that change fast
    generator: float = 0.25  # the share of the model's width that ELECTRA's generator has
    filled_by: str = ""  # or a folder whose model fills the places for ELECTRA, and learns no more
    precision: Literal["", "float32", "bf16"] = ""  # by default bf16 on a GPU
    launch: Launch = "plain"
    evaluate_every: int = 1000
    save_every: int = 1000
    report_every: int = 50
    seed: int = 0
    varied: float = 0.0  # how much recordings are changed each time, from 0 to 1: their speed, tone and noise
    column: str | None = None  # of JSON lines or Parquet, the one that holds the text
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name in ("longest", "budget", "accumulate", "steps"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        for name in ("warmup", "later"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give a share of the steps, from 0 to 1")
        if not 0 < self.share < 1:
            raise UsageProblem(f"share={self.share}: give a share of the pieces, above 0 and below 1")
        check_varied(self.varied)


PRETRAINING = PretrainingSettings()
