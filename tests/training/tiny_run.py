"""A tiny next-token model with dropout, its data, and a training of it: run here, in a child, or under torchrun."""

import json
import multiprocessing
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from regard.errors import Problem
from regard.objectives.objective import Asked, Objective, Result
from regard.rows import Tokens
from regard.training.loop import train
from regard.training.report import Reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

VOCABULARY = 12
OPTIMIZER = OptimizerConfig(rate=0.02, warmup=3, weight_decay=0.01)
CONFIG = TrainingConfig(steps=12, report_every=3, evaluate_every=4, save_every=2, optimizer=OPTIMIZER)

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch._dynamo", "regard.training.loop"])  # seconds, once


class TinyModel(nn.Module):
    def __init__(self, dropout: float):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.inner = nn.Linear(16, 16)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(16, VOCABULARY)
        self.out.weight = self.embed.weight  # tied: a checkpoint must hold it once

    def forward(self, ids):
        return self.out(self.dropout(torch.relu(self.inner(self.embed(ids)))))

    def parts(self):
        return [self.embed, self.inner, self.out]


class Next(Objective):
    """The token after each, some of the inputs replaced at random as a masking objective would."""

    def __init__(self, noise: float):
        super().__init__()
        self.noise = noise

    def prepare(self, batch):
        ids, rows = batch["tokens"].ids, batch["tokens"].rows
        keep = torch.rand(len(ids)) >= self.noise
        has_next = rows.at + 1 < rows.lengths[rows.row]
        return {"tokens": Tokens(ids * keep, rows), "target": ids.roll(-1), "has_next": has_next}

    def judge(self, model, batch):
        logits = model(batch["tokens"].ids)
        losses = F.cross_entropy(logits, batch["target"], reduction="none") * batch["has_next"]
        right = (logits.argmax(-1) == batch["target"]) & batch["has_next"]
        return Result(losses.sum(), batch["has_next"].sum(), {"accuracy": right.sum()})


class Carrying(Next):
    """The same, but that what a turn's last micro-batch came to weighs its next one."""

    def __init__(self, noise: float):
        super().__init__(noise)
        self.states = {}

    def prepare(self, batch):
        return {**super().prepare(batch), "turn": batch["turn"]}

    def judge(self, model, batch):
        result, turn = super().judge(model, batch), batch["turn"]
        weight = 1 + self.states.get(turn, torch.zeros(1))[0]
        self.states[turn] = (result.loss / result.count).detach().reshape(1)
        return Result(result.loss * weight, result.count, result.parts)

    def carried(self):
        return {f"{turn}.last": state for turn, state in self.states.items()}

    def carry(self, model, tensors):
        self.states = {int(name.partition(".")[0]): tensor for name, tensor in tensors.items()}


class CountingRows:
    """Rows that count upwards, of unequal lengths; `share` splits each batch's rows into so many micro-batches."""

    def __init__(self, rows: int = 6, share: int = 1):
        self.rows, self.share = rows, share

    def at(self, position):
        whole, part = divmod(position, self.share)
        draw = torch.Generator().manual_seed(whole)
        rows = []
        for _ in range(self.rows):
            first, length = torch.randint(2, 9, (2,), generator=draw).tolist()
            rows.append([1 + (first + i) % (VOCABULARY - 1) for i in range(length)])
        return {"tokens": Tokens.of(rows[part :: self.share])}

    def epoch_of(self, position):
        return divmod(position, 10)


class TurnRows(CountingRows):
    """Rows in turns, of which a step has two."""

    def at(self, position):
        return {**super().at(position), "turn": position % 2}


def carrying():
    """A model whose objective carries a state from step to step, as Transformer-XL's does."""
    asked = tiny()
    asked.objective = Carrying(0.2)
    return {"asked": asked, "batches": TurnRows(), "evaluate": None, "fingerprint": "data"}


def tiny(dropout=0.3, noise=0.2):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    return Asked(TinyModel(dropout), Next(noise))


def evaluation(asked):
    def evaluate():
        result = asked(CountingRows(16).at(1000) | asked.prepare(CountingRows(16).at(1000)))
        return {"loss": float(result.loss / result.count)}

    return evaluate


def run(folder, config=CONFIG, batches=None, asked=None, **options):
    """Train the tiny model in a folder; the outcome."""
    asked = asked or tiny()
    options = {"evaluate": evaluation(asked), "reporter": Reporter(), **options}
    return train(asked, batches or CountingRows(), config, folder, **options)


def records(folder):
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]


def saved(folder, step, name="model"):
    return load_file(Path(folder) / f"checkpoints/step-{step:08d}/{name}.safetensors")


def assert_near(one, other, tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=tolerance, atol=tolerance)


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def run_and_save(folder, changes):
    """For a process of its own: train, then leave the weights beside the run."""
    outcome = run(folder, replace(CONFIG, **changes))
    leave(outcome.weights, f"{folder}/outcome.safetensors")
    sys.exit(outcome.exit_code)


def leave(weights, path):
    save_file({name: tensor.clone() for name, tensor in weights.items()}, path)


class FailingRows(CountingRows):
    """Rows of which one is the end of the rank that asks for it."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def at(self, position):
        if position == 13 and self.fault == "raises":
            raise Problem("line 13 of train.de is empty")
        if position == 13 and self.fault == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if position == 13 and self.fault == "is killed once" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        if position == 13 and self.fault == "is signalled":
            os.kill(os.getpid(), signal.SIGTERM)
        return super().at(position)


def as_rank(folder, fault, environment, changes):
    """For one of several processes: what a rank does, and what goes wrong on rank 1, which takes the odd positions."""
    os.environ.update(environment)
    rank = int(os.environ["RANK"])
    fingerprint = f"data of rank {rank}" if fault == "disagrees" else "data"
    try:
        options = carrying() if fault == "carries" else {"batches": FailingRows(fault), "fingerprint": fingerprint}
        outcome = run(folder, replace(CONFIG, **changes), **options)
    except Exception as error:
        Path(folder, f"rank-{rank}.txt").write_text(f"{type(error).__name__}: {error}")
        sys.exit(1)
    leave(outcome.weights, f"{folder}/rank-{rank}.safetensors")
    sys.exit(outcome.exit_code)


if __name__ == "__main__":
    as_rank(*json.loads(sys.argv[1]))
