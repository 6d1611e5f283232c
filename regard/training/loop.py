"""The training loop.  It knows a module that turns a batch into a Result, and nothing of models, tasks or data."""

from __future__ import annotations

import json
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.checkpoints.files import check_room, read_checked_json, sweep, write_checked_json
from regard.checkpoints.weights import set_weights, weights_of
from regard.config import to_dict
from regard.errors import Problem, UsageProblem
from regard.layers.host_memory import check_memory
from regard.objectives.objective import Asked, Batch
from regard.training.ahead import Batches
from regard.training.compiled import compiled
from regard.training.graphs import replayed
from regard.training.parallel import Ranks, together
from regard.training.report import Metrics, Record, Reporter, default_reporter
from regard.training.resume import Progress, Terms, locked, wait_for
from regard.training.saving import Checkpoints, checkpoint_size
from regard.training.settings import TrainingConfig
from regard.training.step import Measured, Stepper, Taken, device_of, seed_of
from regard.training.stopping import Stopping

Evaluate = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Outcome:
    """How a training ended.  The trained module holds the chosen weights; after a signal, the last."""

    step: int
    best: float | None  # the watched number of the chosen weights
    stopped_because: Literal["steps", "patience", "signal"]
    chosen: Literal["last", "best", "average"]
    weights: dict[str, Tensor]
    signal: int = 0

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal else 0


def train(
    asked: Asked,
    batches: Batches,
    config: TrainingConfig,
    folder: Path | str,
    *,
    evaluate: Evaluate | None = None,
    reporter: Reporter | None = None,
    fingerprint: str = "",
    allow_changed_data: bool = False,
) -> Outcome:
    """Train where `asked` is, in a folder that keeps the run; called again with the same folder, go on from there.

    `evaluate` is called on every rank, in eval mode, without gradients and in the precision of training; the first
    rank's numbers count.  `fingerprint` stands for the data: a resumed run is refused when it has changed.
    """
    if config.patience and evaluate is None:
        raise UsageProblem(f"patience={config.patience} waits for better evaluations, and none was asked for")
    folder, device = Path(folder), device_of(asked)
    if device.type == "cpu":  # a gradient, and two numbers of AdamW's, for each weight that learns
        learning = sum(parameter.nbytes for parameter in asked.parameters() if parameter.requires_grad)
        check_memory(
            3 * learning,
            "Training this model, beside its weights,",
            "Train a smaller one, or take a machine with more.",
        )
    with together(device) as ranks, Stopping() as stopping:
        terms = Terms(to_dict(config), fingerprint, config.accumulate * ranks.count)
        shapes = {name: [*tensor.shape] for name, tensor in weights_of(asked).items()}
        ranks.agree(device, settings=json.dumps(terms.config), data=fingerprint, models=json.dumps(shapes))
        if ranks.first:
            check_room(folder, 2 * checkpoint_size(asked))
        with locked(folder) if ranks.first else nullcontext(), launching(asked, config, ranks):
            reporter = (reporter or default_reporter()) if ranks.first else Reporter()
            run = Run(Stepper(asked, batches, config, ranks), terms, folder, evaluate, reporter)
            run.resume(allow_changed_data)
            return run.recall() or run.go(stopping)


@contextmanager
def launching(asked: Asked, config: TrainingConfig, ranks: Ranks) -> Iterator[None]:
    """How kernels are launched in here."""
    alone = device_of(asked).type == "cuda" and ranks.count == 1
    fused = compiled(asked) if config.launch.startswith("compiled") else nullcontext()
    with fused, replayed(asked) if config.launch.endswith("graphs") and alone else nullcontext():
        yield


class Run:
    """A training under way: what happens between steps."""

    def __init__(self, stepper: Stepper, terms: Terms, folder: Path, evaluate: Evaluate | None, reporter: Reporter):
        self.stepper, self.terms, self.evaluate, self.reporter = stepper, terms, evaluate, reporter
        self.asked, self.config, self.ranks = stepper.asked, stepper.config, stepper.ranks
        self.checkpoints = Checkpoints(folder / "checkpoints", reporter.say)
        self.metrics = Metrics(folder / "metrics.jsonl")
        self.finished = folder / "finished.json"
        self.progress = Progress()
        self.under_way: deque[Taken] = deque()  # steps that were launched, and not heard of yet

    def resume(self, allow_changed_data: bool) -> None:
        """Take up the newest whole checkpoint, if there is one; the first rank says which."""
        if self.ranks.first:
            sweep(self.finished.parent)
        newest = self.checkpoints.newest() if self.ranks.first else None
        [step] = self.ranks.from_first([newest or 0], self.stepper.device)
        if not step:
            return
        place = self.checkpoints.at(int(step))
        wait_for(place)
        self.terms.check(self.checkpoints.state(int(step)), place, allow_changed_data)
        self.progress = self.checkpoints.restore(int(step), self.asked, self.stepper.optimizer)
        if carried := self.checkpoints.carried(int(step), self.ranks.rank, self.ranks.count):
            tensors = {name: tensor.to(self.stepper.device) for name, tensor in carried.items()}
            self.asked.objective.carry(self.asked.model, tensors)

    def recall(self) -> Outcome | None:
        """What a run that is already finished came to; None where that is to be worked out (again)."""
        if not (self.over and self.finished.exists()):
            return None
        try:
            told = read_checked_json(self.finished)
        except Problem as problem:
            self.reporter.say(f"{problem} What it said is worked out again from the checkpoints.")
            return None
        moved = told["step"] != self.progress.step  # it has been given more steps since, and has taken some
        if moved or not all(self.checkpoints.at(step).exists() for step in told["of"]):
            return None
        self.reporter.say(f"{self.finished.parent} is finished, at step {told['step']}. Give more steps to go on.")
        return self.outcome(**told)

    def go(self, stopping: Stopping) -> Outcome:
        if self.ranks.first:
            self.metrics.rewind(self.progress.step)
        self.reporter.begin(self.progress.step, self.config.steps)
        if self.progress.step:
            self.reporter.say(f"Resuming after step {self.progress.step}.")
        self.asked.train()
        try:
            with closing(self.stepper.micro_batches(self.progress.step)) as micro_batches:
                while not self.over:
                    stop = self.step(micro_batches, stop=stopping.signal > 0)
                    evaluate = self.evaluate if self.due(self.config.evaluate_every) else None
                    better = evaluate is not None and self.improved(evaluate)
                    if better or stop or self.over or self.due(self.config.save_every):
                        self.save()
                    if stop:
                        return self.interrupted(stopping.signal or signal.SIGTERM)
            return self.conclude()
        finally:
            self.reporter.end()

    @property
    def over(self) -> bool:
        return self.progress.step >= self.config.steps or 0 < self.config.patience <= self.progress.waited

    def due(self, every: int, step: int | None = None) -> bool:
        """Whether a step, by default the last that was launched, is one of those; the very last always is."""
        step = self.progress.step if step is None else step
        return step == self.config.steps or (every > 0 and step % every == 0)

    def step(self, micro_batches: Iterator[tuple[int, Batch]], stop: bool) -> bool:
        """Take a step; whether some rank was asked to stop.

        A device works on while the next steps are made ready: of a step it is heard once a few more have been launched,
        or at once, where something else comes before that.  Several ranks hear of a stop after the same step.
        """
        start = time.perf_counter()
        self.under_way.append(self.stepper.take(self.progress.step, micro_batches, stop))
        self.progress.step += 1
        self.progress.add({"seconds": time.perf_counter() - start})
        stops = self.hear(0 if self.pauses or (stop and self.ranks.count == 1) else self.stepper.late)
        if stops:
            self.hear(0)
        return stops

    @property
    def pauses(self) -> bool:
        """Whether something else is done before the next step."""
        evaluates = self.evaluate is not None and self.due(self.config.evaluate_every)
        return evaluates or self.due(self.config.save_every)

    def hear(self, late: int) -> bool:
        """What the steps under way came to, all but so many of the last, and report it when it is time; whether some
        rank was asked to stop."""
        stops = False
        while len(self.under_way) > late:
            start = time.perf_counter()
            measured = self.stepper.measured(self.under_way.popleft())
            self.progress.add({**measured.sums, "seconds": time.perf_counter() - start})
            stops = stops or measured.stop
            if self.due(self.config.report_every, measured.step):
                self.report(measured)
        return stops

    def report(self, measured: Measured) -> None:
        """Means over the steps since the last report."""
        step, sums = measured.step, self.progress.since
        count, tokens, seconds = sums.pop("count"), sums.pop("tokens"), sums.pop("seconds")
        record: Record = {"step": step, "epoch": self.stepper.batches.epoch_of(step * self.stepper.width - 1)[0]}
        record |= {name: value / max(count, 1) for name, value in sums.items()}
        record |= {"rate": measured.rate, "norm": measured.norm, "tokens_per_second": tokens / seconds}
        self.tell(record | {"tokens": self.progress.tokens, "seconds": self.progress.seconds})
        sums.clear()

    def tell(self, record: Record) -> None:
        if self.ranks.first:
            self.metrics.write(record)
        self.reporter.tell(record)

    def score(self, evaluate: Evaluate, **about: str) -> float:
        """The number that is watched, of the weights as they are."""
        torch.manual_seed(seed_of(self.config.seed, self.progress.step))
        self.asked.eval()
        with torch.no_grad(), self.stepper.precision():
            numbers = evaluate()
        self.asked.train()
        if self.config.watched not in numbers:
            raise UsageProblem(f"best={self.config.best!r}: an evaluation gives only {', '.join(numbers)}")
        numbers = dict(zip(numbers, self.ranks.from_first([*numbers.values()], self.stepper.device), strict=True))
        self.tell({"step": self.progress.step, "evaluation": numbers, **about})
        return numbers[self.config.watched]

    def improved(self, evaluate: Evaluate) -> bool:
        """Whether no step before was better; if so, this one is remembered."""
        score, progress = self.score(evaluate), self.progress
        if not self.config.improves(score, progress.best):
            progress.waited += 1
            return False
        progress.best, progress.best_step, progress.waited = score, progress.step, 0
        return True

    def save(self) -> None:
        if not self.ranks.first:
            self.checkpoints.hand_in(self.asked, self.progress.step, self.ranks.rank)
        self.ranks.barrier()
        if self.ranks.first:
            self.checkpoints.save(self.asked, self.stepper.optimizer, self.progress, self.terms, self.ranks.count)
            steps = self.checkpoints.steps(self.progress.step)
            self.checkpoints.prune(steps, {*steps[-self.config.keep :], *self.averaged(), self.progress.best_step})
        self.ranks.barrier()

    def averaged(self) -> list[int]:
        """The steps to average: the last, and those before it that were due (not one saved for a signal)."""
        now = self.progress.step
        steps = [s for s in self.checkpoints.steps(now) if s == now or s % self.config.save_every == 0]
        return steps[-self.config.average :] if self.config.average > 1 else []

    def conclude(self) -> Outcome:
        """Choose among the best weights and the mean of the last; the last where nothing was evaluated."""
        step, best, average = self.progress.step, self.progress.best, self.averaged()
        chosen, of = ("last", [step]) if self.progress.best_step is None else ("best", [self.progress.best_step])
        if not self.checkpoints.at(of[0]).exists():  # removed by someone, as `load` advises
            chosen, of, best = "last", [step], self.score_of([step], "last")
            self.reporter.say(f"The best weights, of step {self.progress.best_step}, were removed: these are the last.")
        if len(average) > 1:
            score = self.score_of(average, "average")
            if score is None or self.config.improves(score, best):
                chosen, of, best = "average", average, score
        because = "steps" if step >= self.config.steps else "patience"
        told: Record = {"step": step, "best": best, "stopped_because": because, "chosen": chosen, "of": of}
        if self.ranks.first:
            write_checked_json(self.finished, told)
        return self.outcome(**told)

    def score_of(self, steps: list[int], name: str) -> float | None:
        """The watched number of the mean of the weights of some steps, if there are evaluations."""
        self.load(steps)
        return self.score(self.evaluate, weights=name) if self.evaluate else None

    def load(self, steps: list[int]) -> None:
        for step in steps:
            if fault := self.checkpoints.fault(step):
                raise Problem(
                    f"{fault} The result of the run needs these weights, of step {step}. Put the file back from a "
                    f"copy; or remove {self.checkpoints.at(step)}, and the same command ends with the weights left."
                )
        set_weights(self.asked, self.checkpoints.average(steps), self.checkpoints.folder)

    def outcome(self, of: list[int], **told: Any) -> Outcome:
        self.load(of)
        return Outcome(weights=self.asked.state_dict(), **told)

    def interrupted(self, number: int) -> Outcome:
        return Outcome(self.progress.step, self.progress.best, "signal", "last", self.asked.state_dict(), number)
