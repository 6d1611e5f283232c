"""Sequence to sequence: every target token, given the source and the tokens before it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from regard.objectives.objective import Batch, Objective, Result


class Translate(Objective):
    """Cross-entropy summed over the target tokens, with the Transformer paper's label smoothing."""

    def __init__(self, smoothing: float = 0.1):
        super().__init__()
        self.smoothing = smoothing

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        logits = model.logits(model(batch["source"], batch["target_in"]))  # type: ignore[operator]
        wanted = batch["target_out"]
        loss = F.cross_entropy(logits, wanted, label_smoothing=self.smoothing, reduction="sum")
        count = torch.tensor(len(wanted), device=loss.device)
        return Result(loss, count, {"right": (logits.argmax(-1) == wanted).sum()})
