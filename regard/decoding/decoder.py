"""All that decoding knows of a model: it can start on a source and take a step.  RNN and Transformer look alike."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from regard.errors import UsageProblem
from regard.rows import Rows, Tokens

S = TypeVar("S", bound="State")


class State(Protocol):
    """How far each row has been written.  A value: a step returns the next one, which may lie where the last one did.
    So there is one way on from a state; for two, select first."""

    def select(self: S, chosen: Tensor) -> S:
        """The same of the chosen rows, in that order; a row may be chosen twice or not at all.  Beams of a source are
        chosen together, as many as there were."""
        ...


class Decoder(Protocol[S]):
    def start(self, source: Tokens, beams: int = 1) -> S:
        """Nothing is written yet on any row of the source, or on so many beams of each, which lie side by side."""
        ...

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

    begin: int | Tensor  # one token for all rows, or each row's own, (B,): where a prompt stopped
    end: int
    ratio: float = 2.0  # a row ends at ratio * its source's length + slack at the latest, whatever is beside it
    slack: int = 10
    longest: int | Tensor = sys.maxsize  # places the model has, or what is left of them for each row, (B,)
    never: tuple[int, ...] = ()  # tokens that are in the vocabulary, but not to be written

    def first(self, source: Tokens) -> Tensor:  # (B,)
        """The token that each row begins with."""
        return torch.as_tensor(self.begin, device=source.ids.device).expand(len(source))

    def limits(self, source: Tokens) -> Tensor:  # (B,)
        return ((source.rows.lengths * self.ratio).long() + self.slack).clamp(max=self.longest)

    def allowed(self, logits: Tensor) -> Tensor:  # (B, V) -> (B, V), in place
        """-inf for what may not be written; the others share its probability."""
        if self.never:
            logits.index_fill_(-1, index_of(self.never, logits.device), -torch.inf)
        return logits


@lru_cache(maxsize=16)
def index_of(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    """Kept on the device: every step asks for it, and one that is recorded cannot fetch it from elsewhere."""
    return torch.tensor(tokens, device=device)


def prompted(prompts: Tokens) -> tuple[Tokens, Tensor]:
    """Prompts that a language model is to go on with: what it reads first, and the last token of each, (B,), with which
    writing begins, since nobody has told what follows it."""
    if len(prompts) and int(prompts.rows.lengths.min()) < 1:
        raise UsageProblem("a prompt without tokens gives nothing to begin with; begin it with the end of another text")
    before = torch.ones_like(prompts.ids, dtype=torch.bool)
    before[prompts.rows.last] = False
    rows = Rows.of(prompts.rows.lengths - 1, prompts.ids.device)
    return Tokens(prompts.ids[before], rows), prompts.ids[prompts.rows.last]
