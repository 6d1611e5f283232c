"""What the objectives of encoders share: one reading of the tokens, the heads that are asked of it, and means of
different counts in one sum.  Letters: N tokens, M of them asked for, W width, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.objectives.by_table import by_table, pays
from regard.objectives.cross_entropy import cross_entropy
from regard.objectives.objective import Batch, Result
from regard.rows import Rows, Tokens


@runtime_checkable
class JudgesStates(Protocol):
    """An objective that judges the states of tokens, whoever had them read: several can share one reading."""

    name: str

    def prepare(self, batch: Batch) -> Batch: ...

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result: ...


def states_of(model: nn.Module, batch: Batch) -> Tensor:  # (N, W)
    return model(batch["tokens"], batch.get("types"))


def later(tokens: Tokens) -> Tensor:  # (M,)
    """Where tokens follow another of their row.  Asked while they are on the CPU: a device would be waited for."""
    return (tokens.rows.at > 0).nonzero().squeeze(1)


def scores_of(model: nn.Module, role: str, states: Tensor, rows: Rows, asker: object) -> Tensor:
    """What the model's head for a role makes of states."""
    heads = model.heads
    if role not in heads:  # type: ignore[operator]
        has = f"only {', '.join(heads)}" if heads else "none"  # type: ignore[arg-type]
        raise UsageProblem(
            f"{type(asker).__name__} needs a model with the head {role!r}, and this one has {has}; "
            "give it that head, or ask something else of it"
        )
    return model.scores(role, states, rows)  # type: ignore[operator]


def words_answered(
    model: Any, role: str, states: Tensor, wanted: Tensor, scores: Callable[[Tensor], Tensor]
) -> Result:  # (M, W), (M,); (M, W) -> (M, V)
    """What `answered` gives of scores(states), which are not made where it is faster without: the head for a role must
    say what it compares with what."""
    compared = model.compared(role, states) if pays(states) and hasattr(model, "compared") else None
    if compared is None:
        return answered(scores(states), wanted)
    loss, right = by_table(compared.states, compared.table, compared.bias, wanted)
    return Result(loss, counted(wanted), {"right": right})


def answered(logits: Tensor, wanted: Tensor) -> Result:  # (M, V), (M,)
    """Cross-entropy with what was wanted, and how often that came first."""
    loss, right = cross_entropy(logits, wanted)
    return Result(loss, counted(wanted), {"right": right})


def counted(targets: Tensor) -> Tensor:
    return torch.full((), len(targets), device=targets.device)


def rescaled(total: Tensor, count: Tensor, to: Tensor) -> Tensor:
    """A sum over `count` targets as if over `to`: the loop, which divides by `to`, finds the same mean."""
    return total * (to / count.clamp(min=1))
