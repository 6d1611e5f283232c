"""regard, learning as `regard pretrain` and `regard train` do: its batches, its objectives, its loop."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.contest import Turns
from benchmarks.laps import Laps
from benchmarks.loads import BEGIN, END
from benchmarks.plan import Plan
from regard.data.batches import PairBatches
from regard.data.corpus import Corpus
from regard.data.parallel import Encoded, Ragged
from regard.data.pretraining import CorpusBatches
from regard.data.stream import Shuffled
from regard.models.folder import load_model
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, Batch, Objective, to_device
from regard.objectives.translate import Translate
from regard.tasks.reader import Reader
from regard.text.tokenizer import Tokenizer
from regard.training.ahead import Batches
from regard.training.loop import train
from regard.training.report import Record, Reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

SHOWN = 8  # rows whose loss is compared
MOST = 1_000_000  # steps: it ends when it has been timed
RATE = 1e-4


def pretrain(plan: Plan, turns: Turns) -> None:
    torch.set_num_threads(plan.threads)
    reader = Reader.load(plan.model, plan.device)
    asked = Asked(reader.model, objective_of(plan, reader.tokenizer))
    turns.show([[loss_of(asked, question(plan, reader.tokenizer))]])
    learn(asked, batches_of(plan, reader.tokenizer), plan, turns)


def translate(plan: Plan, turns: Turns) -> None:
    torch.set_num_threads(plan.threads)
    asked = Asked(load_model(Path(plan.model)).to(plan.device), Translate())
    batches = pairs(plan)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # or outputs would not be close enough
        turns.show([[loss_of(asked, pairs(replace(plan, budget=SHOWN * plan.longest)).at(0))]])
    learn(asked, batches, plan, turns)


def batches_of(plan: Plan, tokenizer: Tokenizer) -> CorpusBatches | Shuffled:
    corpus = Corpus.load(plan.examples)
    if plan.objective == "next":
        return Shuffled(corpus, plan.longest, plan.budget, plan.seed)
    return CorpusBatches(corpus, tokenizer.frame, plan.longest, plan.budget, plan.seed)


def pairs(plan: Plan) -> PairBatches:
    with np.load(plan.examples) as drawn:
        source, target = (
            Ragged(drawn[side].astype(np.int32), np.cumsum([0, *drawn[f"{side}_lengths"]]))
            for side in ("source", "target")
        )
    return PairBatches(Encoded(source, target, 0, 0, plan.longest), plan.budget, plan.seed, BEGIN, END)


def objective_of(plan: Plan, tokenizer: Tokenizer) -> Objective:
    if plan.objective == "next":
        return Next()
    return Masked(Hiding(tokenizer.mask, tokenizer.size, tuple(tokenizer.specials)))


def question(plan: Plan, tokenizer: Tokenizer) -> Batch:
    """A few rows, with the same tokens hidden for all."""
    batch = batches_of(replace(plan, budget=SHOWN * plan.longest), tokenizer).at(0)
    torch.manual_seed(plan.seed)
    return objective_of(plan, tokenizer).prepare(batch)


@torch.no_grad()
def loss_of(asked: Asked, batch: Batch) -> float:
    """The mean, without dropout, in full precision."""
    asked.eval()
    result = asked(to_device(batch, next(asked.parameters()).device))
    return (result.loss / result.count).item()


def learn(asked: Asked, batches: Batches, plan: Plan, turns: Turns) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(asked, batches, training(plan), folder, reporter=Timed(Laps(turns, plan)))


def training(plan: Plan) -> TrainingConfig:
    """AdamW at one rate, and gradients clipped at 1."""
    optimizer = OptimizerConfig(RATE, "constant", warmup=0, betas=(0.9, 0.999), epsilon=1e-8)
    return TrainingConfig(
        steps=MOST, seed=plan.seed, precision="bf16" if plan.on_gpu else "float32", launch=plan.launch, report_every=1,
        evaluate_every=0, save_every=MOST, optimizer=optimizer,
    )  # fmt: skip


class Timed(Reporter):
    """Is told of every step as it ends."""

    def __init__(self, laps: Laps):
        self.laps, self.tokens = laps, 0

    def begin(self, step: int, steps: int) -> None:
        self.laps.begin()

    def tell(self, record: Record) -> None:
        tokens, self.tokens = record["tokens"] - self.tokens, record["tokens"]
        if self.laps.step(tokens):
            sys.exit()  # before anything is saved
