"""Language modelling: which word comes next; or, in both directions, which came before too (Peters et al., 2018)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered


class Next(Objective):
    """The next token of every token.  Where rows go on from one batch to the next, so does the model: it begins where
    its state stood, and learns nothing of how it came there."""

    name = "next"

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[int, Any] = {}  # where each turn's rows stood at their end

    def judge(self, model: Any, batch: Batch) -> Result:
        turn = batch.get("turn")
        was = self.states.get(turn) if turn is not None and batch["goes_on"] else None
        states, state = model.read(batch["tokens"], was)
        if turn is not None and self.training:
            self.states[turn] = state.detached()
        return answered(model.logits(states), batch["wanted"])

    def carried(self) -> dict[str, Tensor]:
        parts = ((turn, state.tensors()) for turn, state in self.states.items())
        return {f"{turn}.{number}": tensor for turn, tensors in parts for number, tensor in enumerate(tensors)}

    def carry(self, model: Any, tensors: dict[str, Tensor]) -> None:
        for turn in {int(name.partition(".")[0]) for name in tensors}:
            count = sum(name.startswith(f"{turn}.") for name in tensors)
            self.states[turn] = model.encoder.state_of([tensors[f"{turn}.{number}"] for number in range(count)])


class Both(Objective):
    """The next token and the one before, by two models that share their words: the forward one has read up to a token,
    the backward one down to it."""

    name = "both"

    def judge(self, model: Any, batch: Batch) -> Result:
        tokens = batch["tokens"]
        forward, backward = model.encoder.both(tokens)
        inner = (tokens.rows.at > 0).nonzero().squeeze(1)  # the first token of a row follows none
        after = answered(model.logits(forward), batch["wanted"])
        before = answered(model.logits(backward[inner]), tokens.ids[inner - 1])
        parts = {name: after.parts[name] + before.parts[name] for name in after.parts}
        return Result(after.loss + before.loss, after.count + before.count, parts)
