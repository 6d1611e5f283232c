"""What an alignment is told, and what holds if nothing is said.  No torch here: the command line shows these."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from regard.data.reading import Reading
from regard.errors import UsageProblem

Way = Literal["clipped", "direct"]


@dataclass(frozen=True)
class AligningSettings:
    objective: Way = "clipped"
    train: str = ""  # clipped: prompts to write on from; direct: pairs of texts
    dev: str = ""  # the same, held out
    reading: Reading = field(default_factory=Reading)
    reward: str = ""  # clipped: the folder of a model that says what a text is worth
    # clipped: a phase is some texts that are written, and steps that learn from them
    most: int = 48  # tokens to write
    texts: int = 256  # of a phase
    passes: int = 4  # over them
    steps: int = 400
    clip: float = 0.2  # how far a chance may change in a phase, as a share, before there is no more to gain
    value_weight: float = 0.1  # of the value's loss beside the policy's
    discount: float = 1.0
    trace: float = 0.95  # how far an advantage looks before it trusts the values
    kl: float = 0.1  # what a nat of KL to the model's beginning costs, in spreads of reward, at first and at least
    target_kl: float = 6.0  # nats that a text is to have: to this the price is led
    kl_gain: float = 0.1  # how fast
    # direct
    beta: float = 0.1  # how much a text is worth that has become e times as probable
    epochs: float = 1.0
    longest: int = 512  # pieces of a row, or fewer where the model's places end
    ends: bool = True  # texts end where they end; or else they break off
    # both
    batch: int = 64  # texts of a step, or pairs
    rate: float = 0.0  # 0: by the model's width
    warmup: float = 0.05  # share of the steps over which it rises
    weight_decay: float = 0.0
    precision: Literal["", "float32", "bf16"] = ""  # by default bf16 on a GPU
    evaluate_every: int = 0  # 0: ten times in all
    save_every: int = 0  # likewise
    report_every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("most", "texts", "passes", "steps", "batch", "longest", "report_every"):
            if getattr(self, name) < 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 1 or more")
        for name in ("clip", "kl", "target_kl", "beta", "epochs"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageProblem(f"{name}={getattr(self, name)}: give a number above 0")
        for name in ("value_weight", "kl_gain", "rate", "weight_decay", "evaluate_every", "save_every"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageProblem(f"{name}={getattr(self, name)}: give 0 or more")
        for name in ("discount", "trace", "warmup"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageProblem(f"{name}={getattr(self, name)}: give a share, from 0 to 1")
        if self.objective == "clipped" and self.texts % self.batch:
            raise UsageProblem(f"texts={self.texts} do not divide into batches of {self.batch}; give a multiple")


ALIGNING = AligningSettings()
