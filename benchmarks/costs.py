"""What a step of training takes in time and memory as it grows; and the lectures' table of one layer each."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from benchmarks.contest import Turns
from benchmarks.families import FAMILIES, Sizes
from benchmarks.peaks import forget, held, peak
from benchmarks.plan import Plan
from regard.attention.attend import attend
from regard.attention.memory import Memory
from regard.attention.score import ScaledDot
from regard.errors import Problem
from regard.rows import Rows
from regard.training.parallel import Ranks
from regard.training.settings import OptimizerConfig, TrainingConfig
from regard.training.step import Stepper

LEAST = 3  # steps, or passes, that are timed
MOST = 1_000_000  # steps: no schedule ends
TINY = Sizes(8, 1, 1, 100)
HEADS, KERNEL = 5, 3  # of the lectures' table; how many heads changes nothing


def grow(plan: Plan, turns: Turns) -> None:
    """One family, along each axis: a size, its seconds and its bytes in a row.  What does not fit ends the axis."""
    torch.set_num_threads(plan.threads)
    cost(plan, turns, TINY)  # in the first steps libraries make themselves ready
    for axis, sizes in json.loads(plan.examples).items():
        points: list[list[float]] = []
        for size in sizes:
            try:
                points.append([float(size), *cost(plan, turns, replace(Sizes(), **{axis: size}))])
            except (torch.OutOfMemoryError, Problem) as error:
                print(f"{plan.model} ends before {axis} {size}: {error}", file=sys.stderr)
                break
        turns.show(points)


def cost(plan: Plan, turns: Turns, sizes: Sizes) -> tuple[float, int]:
    """Seconds of a step; and the most bytes that were held, weights, gradients and moments among them."""
    clean(plan.on_gpu)
    before = held(plan.on_gpu)
    forget(plan.on_gpu)
    torch.manual_seed(0)
    asked, batches = FAMILIES[plan.model](sizes)
    optimizer = OptimizerConfig(1e-4, "constant", warmup=0)
    config = TrainingConfig(steps=MOST, precision="bf16" if plan.on_gpu else "float32", optimizer=optimizer)
    stepper = Stepper(asked.to(plan.device).train(), batches, config, Ranks())
    seconds: list[float] = []
    with closing(stepper.micro_batches(0)) as micro_batches:
        while len(seconds) < 1 + LEAST or sum(seconds[1:]) < plan.seconds:
            start = turns.now()
            stepper.take(len(seconds), micro_batches, stop=False)
            seconds.append(turns.now() - start)
    return median(seconds[1:]), peak(plan.on_gpu) - before


def clean(on_gpu: bool) -> None:
    """Give back what earlier sizes held, which would be counted with this one."""
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def layers_of(size: int) -> dict[str, int]:
    """FLOPs of one layer each, forwards, by the lectures' own constants: `size` is both length and width."""
    length = width = size
    return {
        "self-attention": 4 * length**2 * width,
        "recurrent (LSTM)": 16 * length * width**2,
        "convolution": 2 * KERNEL * length * width**2,
    }


def one_layer_each(plan: Plan, turns: Turns) -> None:
    """Seconds of a pass forwards, in the order of the table: for one row, and for `batch` of them."""
    torch.set_num_threads(plan.threads)
    turns.show([layers_timed(plan, count, turns) for count in (1, plan.batch)])


@torch.inference_mode()
def layers_timed(plan: Plan, count: int, turns: Turns) -> list[float]:
    how: dict[str, Any] = {"device": plan.device, "dtype": torch.bfloat16 if plan.on_gpu else torch.float32}
    length = width = plan.longest
    rows = Rows.even(count, length, plan.device)
    heads = torch.randn(rows.total, HEADS, width // HEADS, **how)
    x = torch.randn(count, length, width, **how)
    score = ScaledDot(width // HEADS)
    cells = torch.nn.LSTM(width, width, batch_first=True, **how)
    convolution = torch.nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, **how)
    passes = (
        lambda: attend(heads, Memory(heads, heads, rows), rows, score=score),
        lambda: cells(x),
        lambda: convolution(x.mT),
    )
    return [timed(run, plan.seconds, turns) for run in passes]


def timed(run: Callable[[], object], least: float, turns: Turns) -> float:
    """The median of passes, the first of which is the warm-up."""
    seconds: list[float] = []
    while len(seconds) < 1 + LEAST or sum(seconds[1:]) < least:
        start = turns.now()
        run()
        seconds.append(turns.now() - start)
    return median(seconds[1:])
