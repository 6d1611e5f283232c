"""Which token comes next: the most probable (greedy), or one drawn by chance (temperature, top-k, top-p).

Letters: B rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.best import best, most_probable, without
from regard.device import widest_float
from regard.errors import UsageProblem


@dataclass(frozen=True)
class Sampling:
    """How to draw a token.  top_k=1, or a temperature of 0 (or too small to divide by), is greedy."""

    temperature: float = 1.0
    top_k: int | None = None  # only the k most probable
    top_p: float | None = None  # only the fewest that are together at least so probable
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UsageProblem(f"temperature {self.temperature}: expected a number from 0 (greedy) upwards")
        if self.top_k is not None and self.top_k < 1:
            raise UsageProblem(f"top-k {self.top_k}: expected at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageProblem(f"top-p {self.top_p}: expected more than 0 and at most 1")

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-6 or self.top_k == 1

    def choose(self, logits: Tensor, generator: torch.Generator) -> Tensor:  # (B, V) -> (B,)
        if self.greedy:
            return best(logits, 1)[1].squeeze(-1)
        return torch.multinomial(self.narrowed(logits).softmax(-1), 1, generator=generator).squeeze(-1)

    def narrowed(self, logits: Tensor) -> Tensor:
        """-inf for what may not be drawn."""
        logits = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            kept = logits.topk(self.top_k)
            logits = torch.full_like(logits, -torch.inf).scatter(-1, kept.indices, kept.values)
        if self.top_p is not None and self.top_p < 1:
            ranked, order = logits.sort(descending=True)
            share = ranked.softmax(-1)
            enough = share.cumsum(-1) - share >= self.top_p  # the ones before it suffice
            logits = torch.full_like(logits, -torch.inf).scatter(-1, order, ranked.masked_fill(enough, -torch.inf))
        return logits


GREEDY = Sampling(temperature=0)


@dataclass(frozen=True)
class Choosing:
    """How a token is chosen: all that a recorded step holds fast."""

    sampling: Sampling = GREEDY
    penalty: float = 1.0  # of tokens that are there already; 1: none
    vocab: int | None = None  # tokens that exist; a table may have more rows
    never: tuple[int, ...] = ()
    shared: bool = False  # what is never written leaves its probability to the others

    def __call__(self, logits: Tensor, seen: Tensor | None, chance: Tensor | None) -> tuple[Tensor, Tensor]:
        """A token for each row, (S,), and how probable the model finds it, (S,)."""
        logits = logits[:, : self.vocab]
        if seen is None and chance is None:
            gains, tokens = most_probable(logits, 1, self.never, shared=self.shared)
            return tokens.squeeze(-1), gains.squeeze(-1)
        allowed = without(logits, self.never)
        gains = (allowed if self.shared else logits).log_softmax(-1, dtype=torch.float32)
        if seen is not None:
            allowed = without(torch.where(seen, penalized(logits.float(), self.penalty), logits.float()), self.never)
        if chance is None:
            tokens = best(allowed, 1)[1].squeeze(-1)
        else:
            tokens = drawn(self.sampling.narrowed(allowed).softmax(-1), chance)
        return tokens, gains.gather(-1, tokens[:, None]).squeeze(-1)


def penalized(logits: Tensor, penalty: float) -> Tensor:
    """Less probable, whatever the sign of a logit."""
    return torch.where(logits > 0, logits / penalty, logits * penalty)


def drawn(shares: Tensor, chance: Tensor) -> Tensor:  # (B, V), (B,) in [0, 1) -> (B,)
    """For each row the token at which its sum of probabilities passes a number."""
    sums = shares.to(widest_float(shares.device)).cumsum(-1)
    tokens = torch.searchsorted(sums, (chance * sums[:, -1])[:, None], right=True)
    return tokens.squeeze(-1).clamp(max=shares.shape[-1] - 1)
