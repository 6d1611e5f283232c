"""Sequence to sequence: every target token, given the source and the tokens before it."""

from __future__ import annotations

from torch import nn

from regard.objectives.cross_entropy import cross_entropy
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted


class Translate(Objective):
    """Cross-entropy summed over the target tokens, with the Transformer paper's label smoothing."""

    def __init__(self, smoothing: float = 0.1):
        super().__init__()
        self.smoothing = smoothing

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        logits = model.logits(model(batch["source"], batch["target_in"]))  # type: ignore[operator]
        loss, right = cross_entropy(logits, batch["target_out"], self.smoothing)
        return Result(loss, counted(batch["target_out"]), {"right": right})
