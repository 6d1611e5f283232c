"""One step of training: micro-batches, their gradients, the mean over all their targets, the optimizer.

Everything random in a micro-batch (what `prepare` hides, what dropout drops) is drawn from a seed made of the run's
seed and the micro-batch's position, in the main thread.  So there is no random state to save: a resumed run draws
what it would have drawn, and any number of ranks draws the same.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from regard.errors import Problem, UsageProblem
from regard.objectives.objective import Asked, Batch, to_device
from regard.rows import Rows, Tokens
from regard.training.ahead import Batches, ahead
from regard.training.optimizer import adamw, rate_at
from regard.training.parallel import Ranks
from regard.training.settings import TrainingConfig


@dataclass(frozen=True)
class Measured:
    """What a step was, over all ranks."""

    sums: dict[str, float]  # loss, count, tokens, and the objective's own parts
    norm: float  # of the gradient, before clipping
    rate: float
    stop: bool  # some rank was asked to stop


class Stepper:
    """A model with its optimizer and its batches.  Step s takes the micro-batches [s * width, (s + 1) * width)."""

    def __init__(self, asked: Asked, batches: Batches, config: TrainingConfig, ranks: Ranks):
        self.asked, self.batches, self.config, self.ranks = asked, batches, config, ranks
        self.device = device_of(asked)
        self.width = config.accumulate * ranks.count
        if config.launch == "compiled":
            for part in repeated(asked) or [asked]:
                part.compile(dynamic=True)
        self.module = ranks.wrap(asked)
        self.optimizer = adamw(asked, config.optimizer)
        self.check_unfreezing()

    def micro_batches(self, step: int) -> Generator[tuple[int, Batch], None, None]:
        """Those of this rank, from a step on."""
        return ahead(self.batches, itertools.count(step * self.width + self.ranks.rank, self.ranks.count))

    def take(self, step: int, micro_batches: Iterator[tuple[int, Batch]], stop: bool) -> Measured:
        """Take a step, counted from 0.  If it raises, the weights are as they were."""
        turns = range(1, self.config.accumulate + 1)
        judged = [self.judge(*next(micro_batches), last=turn == turns[-1]) for turn in turns]
        self.freeze(step)
        gradients = [p.grad for p in self.asked.parameters() if p.grad is not None]
        sums = torch.stack([torch.stack([*one.values()]) for one in judged]).sum(0)
        sums = self.ranks.sum(torch.cat([sums, sums.new_full((1,), stop)]))
        # The one wait for the device in a step: a few launches come late, and no bad gradient reaches the weights.
        *totals, stops, norm = torch.cat([sums, get_total_norm(gradients)[None]]).tolist()
        total = dict(zip(judged[0], totals, strict=True))

        scale = self.ranks.count / max(total["count"], 1)  # the ranks' mean becomes the mean over targets
        norm *= scale
        if not (math.isfinite(total["loss"]) and math.isfinite(norm)):
            raise self.not_finite(step, total["loss"], norm)
        rate = rate_at(step + 1, self.config.steps, self.config.optimizer)
        self.update(gradients, scale * self.clipped(norm), rate)
        return Measured(total, norm, rate, stop=stops > 0)

    def judge(self, position: int, batch: Batch, last: bool) -> dict[str, Tensor]:
        """Add a micro-batch's gradients to those of the step; its sums, on the device."""
        torch.manual_seed(seed_of(self.config.seed, position))
        question = self.asked.prepare(batch)
        try:
            with nullcontext() if last else self.ranks.apart(self.module):
                with self.precision():
                    result = self.module(to_device(pinned(question, self.device), self.device))
                result.loss.backward()
        except torch.OutOfMemoryError as error:
            raise self.out_of_memory(position, question, error) from error
        sums = {"loss": result.loss.detach(), "count": result.count, **result.parts}
        sums["tokens"] = result.loss.new_full((), token_count(question))
        return {name: value.double() for name, value in sums.items()}

    def freeze(self, step: int) -> None:
        """Drop the gradients of parts whose turn to learn has not come: the optimizer leaves alone what has none.

        They were computed in vain; but the graph is the same at every step, for ranks, for compiled code and for a
        resumed run, and the parts frozen longest are frozen for a few epochs.
        """
        for group in self.optimizer.param_groups:
            for parameter in group["params"] if step < group["begins"] else ():
                parameter.grad = None

    def check_unfreezing(self) -> None:
        groups, steps, every = self.optimizer.param_groups, self.config.steps, self.config.optimizer.unfreeze
        last = max(group["begins"] for group in groups)
        if last >= steps:
            raise UsageProblem(
                f"with one more part every {every} steps the lowest of {len(groups) // 2} would learn from step "
                f"{last + 1} on, and the last is {steps}. Unfreeze faster, or train longer."
            )

    def precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    def clipped(self, norm: float) -> float:
        clip = self.config.optimizer.clip
        return min(1.0, clip / norm) if clip and norm else 1.0

    def update(self, gradients: list[Tensor], factor: float, rate: float) -> None:
        torch._foreach_mul_(gradients, factor)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def not_finite(self, step: int, loss: float, norm: float) -> Problem:
        bad = (n for n, p in self.asked.named_parameters() if p.grad is not None and not p.grad.isfinite().all())
        first, last = step * self.width, (step + 1) * self.width - 1
        return Problem(
            f"Step {step + 1} (micro-batches {first} to {last}): the loss is {loss} and the gradient's norm {norm}; "
            f"the first gradient that is not finite is that of {next(bad, 'no parameter')}. The step was not taken and "
            "checkpoints are kept. Look at those batches, or train in a new folder with a lower rate or more warm-up."
        )

    def out_of_memory(self, position: int, question: Batch, error: torch.OutOfMemoryError) -> Problem:
        accumulate = self.config.accumulate
        return Problem(
            f"Micro-batch {position} ({token_count(question):,} tokens) does not fit in the memory of {self.device}: "
            f"{error} Train with half the tokens a micro-batch and accumulate={2 * accumulate} (now {accumulate}): "
            "the steps stay as large."
        )


def repeated(module: nn.Module) -> list[nn.Module]:
    """What a model has several of, one like the other: its blocks.  Compiled each by itself they share their code, and
    it is made in seconds, where that of the whole model takes minutes."""
    found: list[nn.Module] = []
    for part in module.children():
        alike = isinstance(part, nn.ModuleList) and len(part) > 1 and len({type(one) for one in part}) == 1
        found += list(part) if alike else repeated(part)  # type: ignore[call-overload]
    return found


def seed_of(seed: int, position: int) -> int:
    digest = hashlib.blake2b(f"{seed} {position}".encode(), digest_size=4).digest()  # torch's CPU takes 32 bits
    return int.from_bytes(digest, "big")


def token_count(batch: Batch) -> int:
    return sum(value.rows.total for value in batch.values() if isinstance(value, Tokens))


def pinned(batch: Batch, device: torch.device) -> Batch:
    """The batch in memory from which a copy to a GPU need not be waited for."""
    return {name: _pinned(value) for name, value in batch.items()} if device.type == "cuda" else batch


def _pinned(value: object) -> object:
    if isinstance(value, Tokens):
        return Tokens(value.ids.pin_memory(), _pinned(value.rows))  # type: ignore[arg-type]
    if isinstance(value, Rows):
        return Rows(value.offsets.pin_memory(), value.total, value.longest)
    return value.pin_memory() if isinstance(value, Tensor) else value


def device_of(asked: Asked) -> torch.device:
    return next(asked.parameters()).device
