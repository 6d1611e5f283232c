"""Several objectives at once, such as BERT's two: the batch is read once, and the loss is the sum of their means."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from regard.errors import UsageProblem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import JudgesStates, rescaled, states_of


class Together(Objective):
    """Objectives that ask different heads about the same tokens.

    Targets are those of the first, and the sums of the others are scaled to as many.  Over micro-batches, then, their
    means are weighted by the first one's targets.  Parts are each one's own, after its name.
    """

    def __init__(self, *objectives: Objective):
        super().__init__()
        for objective in objectives:
            if not isinstance(objective, JudgesStates):
                raise UsageProblem(
                    f"{type(objective).__name__} cannot be asked together with others: "
                    "it has the tokens read in its own way; train for it alone"
                )
        self.objectives: Sequence[JudgesStates] = nn.ModuleList(objectives)  # type: ignore[assignment]

    def prepare(self, batch: Batch) -> Batch:
        for objective in self.objectives:
            batch = objective.prepare(batch)
        return batch

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        states = states_of(model, batch)
        results = {objective.name: objective.judge_states(model, states, batch) for objective in self.objectives}
        count = next(iter(results.values())).count
        sums = {
            f"{name}_{part}": rescaled(value, result.count, count)
            for name, result in results.items()
            for part, value in {"loss": result.loss, **result.parts}.items()
        }
        loss = torch.stack([sums[f"{name}_loss"] for name in results]).sum()
        return Result(loss, count, {name: value.detach() for name, value in sums.items()})
