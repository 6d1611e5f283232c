"""regard's vectors by products in lower precision, on a CPU: how fast they are, and how near to those in float32."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.contest import Turns, Work
from benchmarks.embedders import SHOWN
from benchmarks.mixed import texts_of
from benchmarks.plan import Plan
from benchmarks.writing import say
from regard.layers.lowered import Precision, lowered
from regard.tasks.reader import Reader


def ours(plan: Plan, turns: Turns, precision: Precision) -> None:
    torch.set_num_threads(plan.threads)
    reader, texts = Reader.load(plan.model, plan.device), texts_of(plan)
    tokens = int(reader.framed([(text,) for text in texts]).lengths.sum())
    exact = reader.embed(texts[:SHOWN])
    turns.show(exact.tolist())  # all are compared in float32
    lowered(reader.model, precision)
    near = cosines(exact, reader.embed(texts[:SHOWN]))
    say(f"regard-{precision}: cosine with float32 {near.mean():.5f} on average, {near.min():.5f} at least")
    for _ in range(plan.stretches):
        turns.begin()
        reader.embed(texts)
        turns.end(tokens)


def cosines(some: np.ndarray, others: np.ndarray) -> np.ndarray:  # (n, W), (n, W) -> (n,)
    return (some * others).sum(1) / np.linalg.norm(some, axis=1) / np.linalg.norm(others, axis=1)


CONTENDERS: dict[str, Work] = {
    "regard-bf16": partial(ours, precision="bf16"),
    "regard-int8": partial(ours, precision="int8"),
}
