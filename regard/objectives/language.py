"""Language modelling: which word comes next; or, in both directions, which came before too (Peters et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import Problem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, later, states_of, words_answered
from regard.rows import Rows


@dataclass(frozen=True)
class Penalties:
    """AWD-LSTM's (Merity et al., 2018): on states that are large, and on states that change fast."""

    activation: float = 2.0
    temporal: float = 1.0

    def __call__(self, raw: Tensor, states: Tensor, rows: Rows) -> Tensor:  # (N, W) before dropout, and after
        follows = rows.at[1:] > 0  # a product leaves the others out: to find them a device would be waited for
        changes = (raw[1:] - raw[:-1]).float().pow(2).mean(1) * follows
        change = changes.sum() / follows.sum().clamp(min=1)
        return self.activation * states.float().pow(2).mean() + self.temporal * change


class Next(Objective):
    """The next token of every token.  Where rows go on from one batch to the next, so does the model: it begins where
    its state stood, and learns nothing of how it came there."""

    name = "next"

    def __init__(self, penalties: Penalties | None = None) -> None:
        super().__init__()
        self.penalties = penalties
        self.states: dict[int, Any] = {}  # where each turn's rows stood at their end

    def judge(self, model: Any, batch: Batch) -> Result:
        turn, tokens = batch.get("turn"), batch["tokens"]
        if turn is None and self.penalties is None:  # whole rows, of which nothing is carried on
            return words_answered(model, "write", states_of(model, batch), batch["wanted"], model.logits)
        was = self.states.get(turn) if turn is not None and batch["goes_on"] else None
        if was is None and batch.get("goes_on") and self.training:
            raise Problem("the state of these rows was not saved with the checkpoint; train in a new folder")
        if self.penalties is None:
            states, state = model.read(tokens, was)
        else:
            raw, state = model.encoder.read_raw(tokens, was)
            states = model.encoder.dropped(raw, tokens.rows)
        if turn is not None and self.training:
            self.states[turn] = state.detached()
        result = words_answered(model, "write", states, batch["wanted"], model.logits)
        if self.penalties is None:
            return result
        penalty = result.count * self.penalties(raw, states, tokens.rows)
        return Result(result.loss + penalty, result.count, {**result.parts, "told": result.loss.detach()})

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

    def prepare(self, batch: Batch) -> Batch:
        return {**batch, "later": later(batch["tokens"])}

    def judge(self, model: Any, batch: Batch) -> Result:
        tokens, places = batch["tokens"], batch["later"]
        forward, backward = model.encoder.both(tokens)
        after = told(model.logits(forward), batch["wanted"])
        before = told(model.logits(backward.index_select(0, places)), tokens.ids[places - 1])
        parts = {name: after.parts[name] + before.parts[name] for name in after.parts}
        return Result(after.loss + before.loss, after.count + before.count, parts)


def told(logits: Tensor, wanted: Tensor) -> Result:  # (N, V), (N,)
    """Of a model that reads more words than it tells, the last that it tells stands for all rarer ones."""
    return answered(logits, wanted.clamp(max=logits.shape[-1] - 1))
