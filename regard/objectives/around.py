"""Words told from what comes after them, by a model that reads backwards; or from both sides (context2vec, Melamud et
al. 2016)."""

from __future__ import annotations

from typing import Any

from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import answered, later, scores_of, states_of


class Before(Objective):
    """The token before every token: what a forward model learns of a text that is turned round."""

    name = "before"

    def prepare(self, batch: Batch) -> Batch:
        return {**batch, "later": later(batch["tokens"])}

    def judge(self, model: Any, batch: Batch) -> Result:
        tokens, places = batch["tokens"], batch["later"]
        states = states_of(model, batch).index_select(0, places)
        return answered(model.logits(states), tokens.ids[places - 1])


class Around(Objective):
    """Every token, by a model whose states have not read it."""

    name = "around"

    def judge(self, model: Any, batch: Batch) -> Result:
        tokens = batch["tokens"]
        return answered(scores_of(model, "masked", states_of(model, batch), tokens.rows, self), tokens.ids)
