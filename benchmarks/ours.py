"""regard, fine-tuning as `regard finetune` does."""

from __future__ import annotations

import sys
import tempfile

import torch

from benchmarks.contest import Turns
from benchmarks.plan import Plan
from regard.data.framed import ExampleBatches, Framed
from regard.data.reading import Reading
from regard.objectives.objective import Asked
from regard.tasks.classify import Classify
from regard.tasks.reader import Reader
from regard.tasks.task import row_scores
from regard.training.loop import train
from regard.training.report import Record, Reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

SHOWN = 64  # texts whose scores are compared


def finetune(plan: Plan, turns: Turns) -> None:
    torch.set_num_threads(plan.threads)
    reader = Reader.load(plan.model, plan.device)
    task = Classify.load(reader.published)
    examples = task.examples(reader, Classify.read(plan.examples, Reading()))
    turns.show(scores(reader, examples.framed.take(range(min(SHOWN, len(examples))))))
    with tempfile.TemporaryDirectory() as folder:
        batches = ExampleBatches(examples, plan.batch, plan.seed)
        train(Asked(reader.model, task), batches, training(plan), folder, reporter=Timed(plan, turns))


def scores(reader: Reader, framed: Framed) -> list[list[float]]:
    return row_scores(reader, "classify", framed, lambda found: found)


def training(plan: Plan) -> TrainingConfig:
    """AdamW, its rate falling in a line, gradients clipped at 1, and no decay of weights: the Trainer's defaults."""
    optimizer = OptimizerConfig(plan.rate, "linear", warmup=0, betas=(0.9, 0.999), epsilon=1e-8)
    return TrainingConfig(
        steps=plan.all_steps, seed=plan.seed, precision="bf16" if plan.on_gpu else "float32", launch=plan.launch,
        report_every=plan.steps, save_every=plan.all_steps, optimizer=optimizer,
    )  # fmt: skip


class Timed(Reporter):
    """Is told of every stretch as it ends."""

    def __init__(self, plan: Plan, turns: Turns):
        self.plan, self.turns, self.tokens = plan, turns, 0

    def begin(self, step: int, steps: int) -> None:
        self.turns.begin()

    def tell(self, record: Record) -> None:
        self.turns.end(record["tokens"] - self.tokens)
        self.tokens = record["tokens"]
        if record["step"] == self.plan.all_steps:
            sys.exit()  # before anything is saved
        self.turns.begin()
