"""All that decoding knows of a model: it can start on a source and take a step.  RNN and Transformer look alike."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from regard.rows import Tokens

S = TypeVar("S", bound="State")


class State(Protocol):
    """How far each row has been written.  A value: a step returns the next one."""

    def select(self: S, chosen: Tensor) -> S:
        """The same of the chosen rows, in that order; a row may be chosen twice or not at all."""
        ...


class Decoder(Protocol[S]):
    def start(self, source: Tokens) -> S: ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:  # (B,) -> logits (B, V)
        ...


@dataclass(frozen=True)
class Hypothesis:
    """What was written, without its first and last token, and how probable it is."""

    tokens: list[int]
    score: float  # what hypotheses are ranked by
    log_probability: float


@dataclass(frozen=True)
class Ends:
    """Where writing begins and ends: the first token, the last, how long a row may become; what is never written."""

    begin: int
    end: int
    ratio: float = 2.0  # a row ends at ratio * its source's length + slack at the latest, whatever is beside it
    slack: int = 10
    longest: int = sys.maxsize  # places the model has
    never: tuple[int, ...] = ()  # tokens that are in the vocabulary, but not to be written

    def limits(self, source: Tokens) -> Tensor:  # (B,)
        return ((source.rows.lengths * self.ratio).long() + self.slack).clamp(max=self.longest)

    def allowed(self, logits: Tensor, at_limit: Tensor) -> Tensor:  # (B, V), (B,) -> (B, V)
        """-inf for what may not be written; rows at their limit can only end.  The others share its probability."""
        if self.never:
            logits = logits.index_fill(-1, torch.tensor(self.never, device=logits.device), -torch.inf)
        only_end = torch.full_like(logits[0], -torch.inf)
        only_end[self.end] = 0.0
        return torch.where(at_limit[:, None], only_end, logits)
