"""One step of training: micro-batches, their gradients, the mean over all their targets, the optimizer.

Everything random in a micro-batch (what `prepare` hides, what dropout drops) is drawn from a seed made of the run's
seed and the micro-batch's position, in the main thread.  So there is no random state to save: a resumed run draws
what it would have drawn, and any number of ranks draws the same.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from regard.errors import Problem, UsageProblem, is_out_of_memory, memory_asked_for
from regard.objectives.objective import Asked, Batch, to_device
from regard.rows import Rows, Tokens
from regard.training.ahead import Batches, ahead
from regard.training.optimizer import adamw, rate_at
from regard.training.parallel import Ranks
from regard.training.settings import TrainingConfig

# Steps that may be under way on a GPU while another is launched: one takes long to launch and another to be done, and
# neither should wait for the other
LATE = 4


@dataclass(frozen=True)
class Measured:
    """What a step was, over all ranks."""

    step: int  # counted from 1
    sums: dict[str, float]  # loss, count, tokens, and the objective's own parts
    norm: float  # of the gradient, before clipping
    rate: float
    stop: bool  # some rank was asked to stop


@dataclass(frozen=True, eq=False)
class Taken:
    """A step that was launched.  What it came to is known once the device has done it."""

    step: int
    rate: float
    sums: list[str]  # the names of the first numbers; behind them the stops, the norm, and that of each gradient
    gradients: list[str]
    numbers: Tensor  # on the CPU, there when `done` says so
    done: torch.cuda.Event | None

    def wait(self) -> list[float]:
        if self.done is not None:
            self.done.synchronize()
        return self.numbers.tolist()


class Stepper:
    """A model with its optimizer and its batches.  Step s takes the micro-batches [s * width, (s + 1) * width).

    A device is never waited for within a step: it finds out by itself how much of a gradient is taken, and whether to
    take the step at all.  So the next one can be launched while it works.
    """

    def __init__(self, asked: Asked, batches: Batches, config: TrainingConfig, ranks: Ranks):
        self.asked, self.batches, self.config, self.ranks = asked, batches, config, ranks
        self.device = device_of(asked)
        self.late = LATE if self.device.type == "cuda" else 0
        self.width = config.accumulate * ranks.count
        self.module = ranks.wrap(asked)
        self.parameters = dict(asked.named_parameters())
        self.optimizer = adamw(asked, config.optimizer)
        self.broken = torch.zeros((), device=self.device)  # 1 from a step that is not finite on
        # as tensors: to divide a plain number by a tensor takes two kernels
        numbers = torch.tensor([ranks.count, config.optimizer.clip], dtype=torch.double, device=self.device)
        self.rank_count, self.clip = numbers.unbind()
        self.check_unfreezing()

    def micro_batches(self, step: int) -> Generator[tuple[int, Batch], None, None]:
        """Those of this rank, from a step on."""
        positions = itertools.count(step * self.width + self.ranks.rank, self.ranks.count)
        return ahead(self.batches, positions, self.ready)

    def ready(self, batch: Batch) -> Batch:
        """What can be done while a batch is fetched: rows laid out as the model reads them, in memory that a GPU copies
        from."""
        lay_out: Callable[[Tokens], Tokens] | None = getattr(self.asked.model, "laid_out", None)
        if lay_out is not None:
            batch = {name: lay_out(part) if isinstance(part, Tokens) else part for name, part in batch.items()}
        return pinned(batch, self.device)

    def take(self, step: int, micro_batches: Iterator[tuple[int, Batch]], stop: bool) -> Taken:
        """Launch a step, counted from 0.  One that is not finite leaves the weights as they are, and so do all later
        ones; `measured` tells."""
        turns = range(1, self.config.accumulate + 1)
        judged = [self.judge(*next(micro_batches), last=turn == turns[-1]) for turn in turns]
        self.freeze(step)
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        stops = torch.full((), float(stop), dtype=torch.double, device=self.device)  # beside it all sums are double
        sums = self.ranks.sum(reduce(torch.add, [torch.stack([*one.values(), stops]) for one in judged]))
        norms = torch.stack(torch._foreach_norm([*gradients.values()]))
        names, rate = [*judged[0]], rate_at(step + 1, self.config.steps, self.config.optimizer)
        norm = self.update([*gradients.values()], norms, sums, rate)
        numbers = torch.cat([sums, norm[None], norms]).to("cpu", non_blocking=True)
        done = torch.cuda.current_stream(self.device).record_event() if self.device.type == "cuda" else None
        return Taken(step, rate, names, [*gradients], numbers, done)

    def measured(self, taken: Taken) -> Measured:
        """What a step came to: here the device is waited for."""
        numbers = taken.wait()
        total = dict(zip(taken.sums, numbers, strict=False))
        stops, norm, *norms = numbers[len(total) :]
        if not (math.isfinite(total["loss"]) and math.isfinite(norm)):
            bad = (name for name, one in zip(taken.gradients, norms, strict=True) if not math.isfinite(one))
            raise self.not_finite(taken.step, total["loss"], norm, next(bad, "no parameter"))
        return Measured(taken.step + 1, total, norm, taken.rate, stop=stops > 0)

    def judge(self, position: int, batch: Batch, last: bool) -> dict[str, Tensor]:
        """Add a micro-batch's gradients to those of the step; its sums, on the device: loss and count, then others."""
        self.draw_from(seed_of(self.config.seed, position))
        question = self.asked.prepare(batch)
        try:
            with nullcontext() if last else self.ranks.apart(self.module):
                with self.precision():
                    result = self.module(to_device(pinned(question, self.device), self.device))
                result.loss.backward()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise self.out_of_memory(position, question, error) from error
        sums = {"loss": result.loss.detach(), "count": result.count, **result.parts}
        return sums | {"tokens": result.loss.new_full((), token_count(question), dtype=torch.double)}

    def draw_from(self, seed: int) -> None:
        """As torch.manual_seed, which takes longer than many a kernel: it notes where it was called from, for devices
        that are not there."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(seed)

    def freeze(self, step: int) -> None:
        """Drop the gradients of parts whose turn to learn has not come: the optimizer leaves alone what has none.

        They were computed in vain; but the graph is the same at every step, for ranks, for compiled code and for a
        resumed run, and the parts frozen longest are frozen for a few epochs.
        """
        for group in self.optimizer.param_groups:
            for parameter in group["params"] if step < group["begins"] else ():
                parameter.grad = None

    def check_unfreezing(self) -> None:
        steps, every = self.config.steps, self.config.optimizer.unfreeze
        begins = {group["begins"] for group in self.optimizer.param_groups}
        last = max(begins)
        if last >= steps:
            raise UsageProblem(
                f"with one more part every {every} steps the lowest of {len(begins)} would learn from step "
                f"{last + 1} on, and the last is {steps}. Unfreeze faster, or train longer."
            )

    def precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    def update(self, gradients: list[Tensor], norms: Tensor, sums: Tensor, rate: float) -> Tensor:
        """Step, as far as clipping lets it, unless something is not finite; the gradient's norm, before clipping."""
        scale = self.rank_count / sums[1].clamp(min=1)  # the ranks' mean becomes the mean over targets
        norm = torch.linalg.vector_norm(norms).double() * scale
        both = sums[0] + norm
        self.broken.logical_or_(both - both != 0)  # only what is finite is 0 less itself
        factor = scale * (self.clip / norm).clamp(max=1.0) if self.config.optimizer.clip else scale
        torch._foreach_mul_(gradients, factor.float())
        # as torch's gradient scaler tells a fused optimizer to leave a step out
        self.optimizer.found_inf = self.broken  # type: ignore[attr-defined]
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def not_finite(self, step: int, loss: float, norm: float, name: str) -> Problem:
        first, last = step * self.width, (step + 1) * self.width - 1
        return Problem(
            f"Step {step + 1} (micro-batches {first} to {last}): the loss is {loss} and the gradient's norm {norm}; "
            f"the first gradient that is not finite is that of {name}. The step was not taken and checkpoints are "
            "kept. Look at those batches, or train in a new folder with a lower rate or more warm-up."
        )

    def out_of_memory(self, position: int, question: Batch, error: RuntimeError | MemoryError) -> Problem:
        accumulate = self.config.accumulate
        return Problem(
            f"Micro-batch {position} ({token_count(question):,} tokens) does not fit in the memory of {self.device}: "
            f"{memory_asked_for(error)}. Train with half the tokens a micro-batch and accumulate={2 * accumulate} "
            f"(now {accumulate}): the steps stay as large."
        )


def seed_of(seed: int, position: int) -> int:
    digest = hashlib.blake2b(f"{seed} {position}".encode(), digest_size=4).digest()  # torch's CPU takes 32 bits
    return int.from_bytes(digest, "big")


def token_count(batch: Batch) -> int:
    """Those that are read; of sound, the frames."""
    return batch.get("frames") or sum(value.rows.total for value in batch.values() if isinstance(value, Tokens))


def pinned(batch: Batch, device: torch.device) -> Batch:
    """The batch in memory from which a copy to a GPU need not be waited for."""
    if device.type != "cuda":
        return batch
    with torch.cuda.device(device):  # a thread begins at the first
        return {name: _pinned(value) for name, value in batch.items()}


def _pinned(value: object) -> object:
    if isinstance(value, Tokens):
        return Tokens(value.ids.pin_memory(), _pinned(value.rows))  # type: ignore[arg-type]
    if type(value) is Rows and not value.offsets.is_pinned():
        return Rows(value.offsets.pin_memory(), value.total, value.longest)
    return value.pin_memory() if hasattr(value, "pin_memory") else value


def device_of(asked: Asked) -> torch.device:
    return next(asked.parameters()).device
