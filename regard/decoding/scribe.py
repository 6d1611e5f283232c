"""A model made ready to write on a GPU, where a step is done sooner than its kernels are launched one by one: they are
recorded as CUDA graphs, over tensors that stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from threading import Lock
from typing import Any, Literal

import torch
from torch import nn

from regard.attention.fixed import grids
from regard.decoding.copies import alike, copied, refresh
from regard.layers.changed import marks_of, weights_in
from regard.layers.fixed import can_be_fixed
from regard.layers.stack import Written
from regard.rows import Tokens

Launch = Literal["plain", "graphs", "compiled", "unrecorded"]  # the last is what graphs do, without them: for a CPU
Precision = Literal["float32", "bf16"]
KEPT = 4  # stages that wait to be used again


class Scribe:
    """A model, the precision in which it writes and how its kernels are launched."""

    def __init__(self, model: nn.Module, precision: Precision = "float32", launch: Launch = "graphs"):
        self.model, self.precision, self.launch = model, precision, launch
        self.copy: Any = None  # in bf16
        self.weights: list[Any] = []  # those that were copied
        self.home: list[Any] = []  # where the weights lie that stages read
        self.stages: dict[Hashable, list[Any]] = {}  # that nobody uses now, the last used at the end
        self.lock = Lock()

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def records(self) -> bool:
        return self.launch in ("graphs", "compiled") and self.device.type == "cuda"

    @property
    def compiles(self) -> bool:
        return self.launch == "compiled" and self.records

    @cached_property
    def attentions(self) -> list[Any]:
        return [part for part in self.model.modules() if hasattr(part, "watchers")]

    @property
    def is_watched(self) -> bool:
        return any(part.watchers for part in self.attentions)

    @property
    def hand(self) -> Any:
        """What writes: the model, or a copy of it.  One that is watched writes itself."""
        if self.precision == "float32" or self.is_watched:
            return self.model
        weights = marks_of(self.model)
        if weights != self.weights:
            if self.copy is None or not alike(self.copy, self.model):
                self.copy = copied(self.model, compiled=self.compiles)
            refresh(self.copy, self.model)
            self.weights = weights
        return self.copy

    @property
    def fits(self) -> bool:
        """Whether its steps can be the same kernels every time, and are asked to be."""
        if not (self.records or self.launch == "unrecorded") or self.is_watched:
            return False
        if not self.home:
            self.settle()
        return self.fixed and isinstance(self.example, Written)

    def settle(self) -> None:
        """Take the weights as they are now.  To look at all of them takes as long as some steps: it is done once for
        what is written together."""
        hand = self.hand
        home = [weight.data_ptr() for weight in weights_in(hand)] if hand is self.model else [hand]
        if home != self.home:  # the weights of a copy stay where they are, a model's own need not
            self.stages.clear()
            self.home, self.example, self.fixed = home, self.begun(hand), can_be_fixed(hand)

    @torch.inference_mode()
    def begun(self, hand: Any) -> Any:
        """Where a row of one token stands: an example of a state."""
        training = hand.training
        with self.eagerly():
            state = hand.eval().start(Tokens.of([[0]], self.device))
        hand.train(training)
        return state

    def eagerly(self) -> AbstractContextManager:
        """In here nothing is compiled: texts to read are of all lengths, and only steps are the same again."""
        return torch.compiler.set_stance("force_eager") if self.compiles else nullcontext()

    @property
    def reads(self) -> bool:
        """Whether what a row begins with is in its own memory, as a prompt is, and not in that of a source."""
        return self.example.traces[0].own is not None

    @property
    def place(self) -> int:
        """Bytes of a place in the memories of all layers."""
        every = [grid for trace in self.example.traces for grid in grids(trace.own or trace.source)]
        return sum(grid.shape[-1] * grid.shape[-2] * grid.element_size() for grid in every)

    @contextmanager
    def stage(self, key: Hashable, make: Callable[[], Any]) -> Iterator[Any]:
        """One that nobody else uses; what was recorded on it is kept for the next who wants the same."""
        self.settle()
        with self.lock:
            waiting = self.stages.pop(key, [])
            stage = waiting.pop() if waiting else None
            if waiting:
                self.stages[key] = waiting
        stage, home = stage or make(), self.home
        try:
            yield stage
        finally:
            stage.stop()
            with self.lock:
                if home is self.home:  # or else it reads weights that are no more
                    self.stages.setdefault(key, []).append(stage)
                while len(self.stages) > KEPT:
                    self.stages.pop(next(iter(self.stages)))

    @cached_property
    def pool(self) -> Any:
        """Memory that graphs share, for no two of them are at work at once."""
        return torch.cuda.graph_pool_handle()
