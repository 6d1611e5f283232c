"""Sequence to sequence: every target token, given the source and the tokens before it."""

from __future__ import annotations

from torch import nn

from regard.objectives.by_table import by_table, pays
from regard.objectives.cross_entropy import cross_entropy
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted


class Translate(Objective):
    """Cross-entropy summed over the target tokens, with the Transformer paper's label smoothing."""

    def __init__(self, smoothing: float = 0.1):
        super().__init__()
        self.smoothing = smoothing

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        states, wanted = model(batch["source"], batch["target_in"]), batch["target_out"]
        if pays(states):
            compared = model.compared(states)  # type: ignore[operator]
            loss, right = by_table(compared.states, compared.table, compared.bias, wanted, self.smoothing)
        else:
            loss, right = cross_entropy(model.logits(states), wanted, self.smoothing)  # type: ignore[operator]
        return Result(loss, counted(wanted), {"right": right})
