"""What a training is told: how long, in what portions, at which rate, how often to report, evaluate and save."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from regard.errors import UsageProblem

HIGHEST_RATE = 10.0  # beyond it every step is noise
# Of kernels: one by one; on one GPU all of a stack's at once; fused; fused, and all at once
Launch = Literal["plain", "graphs", "compiled", "compiled-graphs"]
Schedule = Literal["inverse-square-root", "linear", "cosine", "constant", "slanted"]


@dataclass(frozen=True)
class OptimizerConfig:
    rate: float = 5e-4  # the peak of the schedule
    schedule: Schedule = "inverse-square-root"
    warmup: int = 4000  # steps over which the rate rises from nothing to its peak
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    clip: float = 1.0  # the longest gradient taken as it is; 0: any
    discriminative: float = 1.0  # each part's rate is that of the part above it, divided by this; 1: all have the same
    unfreeze: int = 0  # steps until one more part, from the top, learns too; 0: all do from the first
    relative: bool = False  # a tensor's rate is so large a share of the size that its numbers begin with

    def __post_init__(self) -> None:
        if not 0 < self.rate <= HIGHEST_RATE:
            raise UsageProblem(f"rate={self.rate}: a learning rate lies above 0 and at most at {HIGHEST_RATE:g}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageProblem(f"betas={self.betas}: each lies from 0 to below 1")
        if not self.epsilon > 0:
            raise UsageProblem(f"epsilon={self.epsilon}: give a small number above 0, such as 1e-9")
        if not 1 <= self.discriminative < math.inf:
            raise UsageProblem(
                f"discriminative={self.discriminative}: give 1 (one rate for all) or more, such as ULMFiT's 2.6"
            )
        for name in ("warmup", "weight_decay", "clip", "unfreeze"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 0 (off) or more")


@dataclass(frozen=True)
class TrainingConfig:
    steps: int = 100_000
    accumulate: int = 1  # micro-batches a step on each rank
    seed: int = 0
    precision: Literal["float32", "bf16"] = "float32"
    launch: Launch = "plain"
    report_every: int = 50
    evaluate_every: int = 1000  # 0: at the end only
    save_every: int = 1000
    best: str = "lowest loss"  # which weights are: those with the lowest, highest or last so-and-so of an evaluation
    patience: int = 0  # stop after so many evaluations without a better one; 0: never
    average: int = 0  # offer the mean of so many last checkpoints as the result; 0 or 1: do not
    keep: int = 2  # newest checkpoints kept, beside the best and those to average
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise UsageProblem(f"{name}={getattr(self, name)}: give {least} or more")
        which, _, name = self.best.partition(" ")
        if which not in ("lowest", "highest", "last") or not name:
            raise UsageProblem(f"best={self.best!r}: say lowest, highest or last, and of what, as in 'highest bleu'")
        if self.optimizer.warmup > self.steps:
            raise UsageProblem(
                f"warmup={self.optimizer.warmup} is more than steps={self.steps}: the rate would never reach its peak. "
                "Give a shorter warm-up (a tenth of the steps is usual) or more steps."
            )

    @property
    def watched(self) -> str:
        """The number of an evaluation that decides."""
        return self.best.partition(" ")[2]

    def improves(self, score: float, best: float | None) -> bool:
        """A score that is not a number improves on nothing."""
        if best is None:
            return abs(score) < float("inf")
        if self.best.startswith("last"):
            return abs(score) < float("inf")
        return score < best if self.best.startswith("lowest") else score > best


LEAST = {
    "steps": 1, "accumulate": 1, "report_every": 1, "save_every": 1, "keep": 1,
    "evaluate_every": 0, "patience": 0, "average": 0,
}  # fmt: skip
