"""Direct preference optimisation (Rafailov et al., 2023): a language model learns from pairs of texts, without a reward
model, for it is one: a text is worth beta * log(p(text) / p(text where the model began))."""

from __future__ import annotations

from torch import Tensor, nn

from regard.objectives.continued import continued, log_probabilities, summed, told
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.preferred import preferred


class Direct(Objective):
    """Rows are pairs, the chosen text before the other.  `reference`, (B,), is how probable each was in the beginning:
    it is computed once, so that no second model is needed in training."""

    name = "direct"

    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def prepare(self, batch: Batch) -> Batch:
        prompts = [prompt for prompt in batch["prompts"].tolist() for _ in range(2)]
        return {**continued(prompts, batch["texts"].tolist()), "reference": batch["reference"]}

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        worth = self.beta * (text_probabilities(model, batch) - batch["reference"]).view(-1, 2)
        result = preferred(worth)
        sums = {"chosen": worth[:, 0].detach().sum(), "rejected": worth[:, 1].detach().sum()}
        return Result(result.loss, result.count, {**result.parts, **sums})


def text_probabilities(model: nn.Module, batch: Batch) -> Tensor:  # (B,)
    """The log-probability of each text after its prompt."""
    _, logits = told(model, batch)
    return summed(log_probabilities(logits, batch["words"]), batch["written"])
