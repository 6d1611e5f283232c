"""What a training is told: how long, in what portions, how often to report, evaluate and save."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.errors import UsageProblem
from regard.training.optimizer import OptimizerConfig


@dataclass(frozen=True)
class TrainingConfig:
    steps: int = 100_000
    accumulate: int = 1  # micro-batches a step on each rank
    seed: int = 0
    precision: Literal["float32", "bf16"] = "float32"
    compile: bool = False
    report_every: int = 50
    evaluate_every: int = 1000  # 0: at the end only
    save_every: int = 1000
    watch: str = "loss"  # the number of an evaluation that says which weights are best
    better: Literal["lower", "higher"] = "lower"
    patience: int = 0  # stop after so many evaluations without a better one; 0: never
    average: int = 0  # offer the mean of so many last checkpoints as the result; 0 or 1: do not
    keep: int = 2  # newest checkpoints kept, beside the best and those to average
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise UsageProblem(f"{name}={getattr(self, name)}: give {least} or more")
        if self.optimizer.warmup > self.steps:
            raise UsageProblem(
                f"warmup={self.optimizer.warmup} is more than steps={self.steps}: the rate would never reach its peak. "
                "Give a shorter warm-up (a tenth of the steps is usual) or more steps."
            )

    def improves(self, score: float, best: float | None) -> bool:
        """A score that is not a number improves on nothing."""
        if best is None:
            return abs(score) < float("inf")
        return score < best if self.better == "lower" else score > best


LEAST = {
    "steps": 1, "accumulate": 1, "report_every": 1, "save_every": 1, "keep": 1,
    "evaluate_every": 0, "patience": 0, "average": 0,
}  # fmt: skip
