"""A task, and beside it language modelling of its texts (Radford et al., 2018): L = L_task + weight * L_language."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from regard.errors import UsageProblem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, rescaled, states_of
from regard.rows import Tokens


class WithLanguage(Objective):
    """The texts are read once.  What comes next is told by the embedding's table, so nothing is added to the model."""

    def __init__(self, task: Objective, weight: float = 0.5):
        super().__init__()
        if not 0 <= weight < float("inf"):
            raise UsageProblem(f"language weight {weight}: expected 0 (none) or more")
        self.task: Any = task
        self.weight = weight

    def prepare(self, batch: Batch) -> Batch:
        """Which tokens have another behind them: found here, since a device would have to be waited for."""
        batch = self.task.prepare(batch)
        return {**batch, "followed": followed(batch["tokens"])}

    def judge(self, model: Any, batch: Batch) -> Result:
        states = states_of(model, batch)
        asked: Result = self.task.judge_states(model, states, batch)
        told = self.told(model, states, batch)
        language = rescaled(told.loss, told.count, asked.count)
        parts = {**asked.parts, "task_loss": asked.loss.detach(), "language_loss": language.detach()}
        return Result(asked.loss + self.weight * language, asked.count, parts)

    def told(self, model: Any, states: Tensor, batch: Batch) -> Result:
        places = batch["followed"]
        logits = F.linear(states[places], model.encoder.embed.tokens.weight)  # (N, W) -> (M, V)
        return answered(logits.float(), batch["tokens"].ids[places + 1])


def followed(tokens: Tokens) -> Tensor:  # (M,)
    return (tokens.rows.at + 1 < tokens.rows.lengths[tokens.rows.row]).nonzero().squeeze(1)
