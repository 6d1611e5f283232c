"""Pairs of texts: does the second follow the first (BERT, Devlin et al. 2018), or are the two in their order (ALBERT,
Lan et al. 2019)?  The question is one; what stands second when it is wrong is the data's affair."""

from __future__ import annotations

from torch import Tensor, nn

from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, scores_of, states_of


class SecondText(Objective):
    """What the second text of each row is, `second`, (B,): 0, the one that follows; 1, another, or the one before."""

    name = "second"

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        return self.judge_states(model, states_of(model, batch), batch)

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        logits = scores_of(model, "next", states, batch["tokens"].rows, self)  # (N, W) -> (B, 2)
        return answered(logits, batch["second"])
