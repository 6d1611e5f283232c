"""Proximal policy optimisation (Schulman et al., 2017), of language models as Ziegler et al. (2019) have it.

A phase is some texts that the model writes; then some steps learn from them.  Both are what one batch after the other
asks, so that the loop that trains everything else trains this too.  Letters: B texts, M written tokens, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import Problem
from regard.objectives.continued import log_probabilities, summed, taken, told
from regard.objectives.objective import Batch, Objective, Result
from regard.rows import Rows, Tokens

CLIPPED_ERROR = 0.2  # of the controller, as its authors have it
TINY = 1e-8  # added to a spread, which may be none

# What a model writes after `prompts` by chance of a `seed`: `tokens`, `words` and `written` as `continued` has them,
# `worth`, (B,), and `reference`, (M,), the log-probabilities of the words where the model began.
Write = Callable[[Any, Tokens, int], Batch]


@dataclass(frozen=True)
class Clipping:
    """How far a step may go, and what it weighs."""

    ratio: float = 0.2  # a chance may change by this share before there is no more to gain
    value: float = 0.2  # and a value by so much
    value_weight: float = 0.1  # of the value's loss beside the policy's
    discount: float = 1.0  # gamma: what a reward counts a token earlier
    trace: float = 0.95  # lambda: how far an advantage looks before it trusts the values
    coefficient: float = 0.1  # beta, which a nat of KL costs in spreads of reward, at the beginning and at least
    target: float = 6.0  # nats of KL to the model's beginning that a text is to have
    gain: float = 0.1  # how fast the coefficient follows


class Clipped(Objective):
    """Owns the value head, the texts of the phase, the price of KL and the scale of rewards: each turn of a step (see
    `Streams`) has its own."""

    name = "clipped"

    def __init__(self, width: int, write: Write, how: Clipping):
        super().__init__()
        self.value = nn.Linear(width, 1)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)
        self.write, self.how = write, how
        self.phases: dict[int, Batch] = {}
        self.coefficients: dict[int, float] = {}
        self.scales: dict[int, tuple[float, float]] = {}

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        turn = batch["turn"]
        if "prompts" in batch:
            self.phases[turn] = self.phase(model, batch)
        if turn not in self.phases:
            raise Problem("what was written last was not saved with the checkpoint; train in a new folder")
        return self.judge_some(model, taken(self.phases[turn], batch["chosen"]))

    def judge_some(self, model: nn.Module, batch: Batch) -> Result:
        """The clipped losses of policy and value: the worse of what a step would bring with clipping and without."""
        how, (states, logits) = self.how, told(model, batch)
        ratio = (log_probabilities(logits, batch["words"]) - batch["before"]).exp()
        gain = batch["advantages"]
        policy = -torch.minimum(ratio * gain, ratio.clamp(1 - how.ratio, 1 + how.ratio) * gain)
        values, before, wanted = self.values(states), batch["values"], batch["returns"]
        near = before + (values - before).clamp(-how.value, how.value)
        value = torch.maximum((values - wanted).square(), (near - wanted).square()) / 2
        count = torch.full((), batch["written"].total, device=ratio.device)
        parts = {
            "policy_loss": policy.sum(),
            "value_loss": value.sum(),
            "clipped": ((ratio - 1).abs() > how.ratio).sum(),
            "entropy": entropy(logits).sum(),
            **{name: batch[name].mean() * count for name in ("reward", "kl", "coefficient", "length")},
        }
        loss = policy.sum() + how.value_weight * value.sum()
        return Result(loss, count, {name: part.detach() for name, part in parts.items()})

    @torch.no_grad()
    def phase(self, model: nn.Module, batch: Batch) -> Batch:
        """What the model writes now, and what a step is to learn from each token of it."""
        found = self.write(model, batch["prompts"], batch["seed"])
        before, values = self.looked_back(model, found)
        written = found["written"]
        coefficient = self.coefficients.get(batch["turn"], self.how.coefficient)
        middle, unit = self.scales.setdefault(batch["turn"], scale_of(found["worth"]))
        distance = before - found["reference"]  # (M,)
        rewards = (-coefficient * distance).index_add(0, written.last, (found["worth"] - middle) / unit)
        gained = advantages(rewards, values, written, self.how.discount, self.how.trace)
        kl = summed(distance, written)
        self.coefficients[batch["turn"]] = held(coefficient, kl.mean().item(), self.how)
        return {
            **{name: found[name] for name in ("tokens", "words", "written")},
            "before": before, "values": values, "advantages": whitened(gained), "returns": gained + values,
            "reward": found["worth"], "kl": kl, "coefficient": torch.full_like(kl, coefficient),
            "length": written.lengths.float(),
        }  # fmt: skip

    def looked_back(self, model: nn.Module, found: Batch, together: int = 64) -> tuple[Tensor, Tensor]:  # (M,), (M,)
        """How probable the model found what it wrote, and what it expected to come of it; some texts at a time, since
        the logits of all would be large."""
        parts = []
        for some in torch.arange(len(found["written"]), device=found["words"].device).split(together):
            batch = taken(found, some)
            states, logits = told(model, batch)
            parts.append((log_probabilities(logits, batch["words"]), self.values(states)))
        return torch.cat([chance for chance, _ in parts]), torch.cat([value for _, value in parts])

    def values(self, states: Tensor) -> Tensor:  # (M, W) -> (M,)
        return self.value(states).squeeze(-1).float()

    def carried(self) -> dict[str, Tensor]:
        found = {}
        for turn, phase in self.phases.items():
            controller = [self.coefficients[turn], *self.scales[turn]]
            found[f"{turn}.controller"] = torch.tensor(controller, dtype=torch.float64)
            for name, part in phase.items():
                flat = {"": part} if isinstance(part, Tensor) else flattened(part)
                found |= {f"{turn}.{name}{inner}": tensor.contiguous() for inner, tensor in flat.items()}
        return found

    def carry(self, model: nn.Module, tensors: dict[str, Tensor]) -> None:
        for turn in {int(name.partition(".")[0]) for name in tensors}:
            own = {name.partition(".")[2]: part for name, part in tensors.items() if name.startswith(f"{turn}.")}
            self.coefficients[turn], middle, unit = own.pop("controller").tolist()
            self.scales[turn] = middle, unit
            read = Tokens(own.pop("tokens.ids"), Rows.of(own["tokens.lengths"], own["words"].device))
            written = Rows.of(own["written.lengths"], own["words"].device)
            plain = {name: part for name, part in own.items() if not name.endswith(".lengths")}
            self.phases[turn] = {**plain, "tokens": read, "written": written}


def advantages(rewards: Tensor, values: Tensor, rows: Rows, discount: float, trace: float) -> Tensor:  # (M,)
    """Generalised advantage estimation (Schulman et al., 2016), from the last token of each row back to its first:
    A_t = d_t + discount * trace * A_(t+1), where d_t = r_t + discount * V_(t+1) - V_t.  Nothing comes after a row."""
    reward, value = rows.pad(rewards), rows.pad(values)  # (B, T); zeros behind the end of a row add nothing
    found, later = torch.zeros_like(reward), reward.new_zeros(len(rows))
    following = reward.new_zeros(len(rows))
    for at in reversed(range(rows.longest)):
        surprise = reward[:, at] + discount * following - value[:, at]
        found[:, at] = later = surprise + discount * trace * later
        following = value[:, at]
    return rows.unpad(found)


def scale_of(worth: Tensor) -> tuple[float, float]:  # (B,)
    """The mean of rewards and how much they differ, of the first texts: counted from and in these they begin at 0 and
    with a spread of 1 (Ziegler et al., 2019).  As a reward model has them, values could not follow them."""
    unit = worth.std(correction=0).item()
    return worth.mean().item(), unit if unit > TINY else 1.0


def whitened(values: Tensor) -> Tensor:  # (M,)
    return (values - values.mean()) / (values.std(correction=0) + TINY)


def held(coefficient: float, kl: float, how: Clipping) -> float:
    """The next price of KL: dearer where there is more of it than is wanted (Ziegler et al., 2019, equation 3).

    It never falls below where it began: every model sets out without KL, and would have left cheaply before the price
    rose."""
    error = min(max(kl / how.target - 1, -CLIPPED_ERROR), CLIPPED_ERROR)
    return max(coefficient * (1 + how.gain * error), how.coefficient)


def entropy(logits: Tensor) -> Tensor:  # (M, V) -> (M,)
    logits = logits.detach()
    return logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)


def flattened(part: Tokens | Rows) -> dict[str, Tensor]:
    if isinstance(part, Tokens):
        return {".ids": part.ids, ".lengths": part.rows.lengths}
    return {".lengths": part.lengths}
