"""What a beam search knows between two steps, in tensors that stay where they are: a step of it is the same kernels
whoever is being written, so that a GPU can be given them all at once.

A hypothesis is not kept as its tokens: each step keeps the token of every beam and the beam that it came from, and
hypotheses are followed back from their ends when they are asked for.
Letters: S sentences, K beams of each, V vocabulary, L steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.decoding.best import most_probable
from regard.decoding.decoder import Ends, Hypothesis
from regard.errors import UsageProblem


@dataclass(frozen=True)
class Beam:
    """How wide to search.  A hypothesis counts by log-probability / length ** penalty: 0 favours short ones."""

    size: int = 5
    penalty: float = 1.0
    best: int = 1  # how many hypotheses to return for each sentence

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageProblem(f"beam {self.size}: expected at least 1")
        if not 1 <= self.best <= self.size:
            raise UsageProblem(f"n-best {self.best}: expected from 1 to the beam's size, {self.size}")
        if not 0 <= self.penalty < 10:
            raise UsageProblem(f"length penalty {self.penalty}: expected from 0 to 10")


class Search:
    """Beams of one sentence lie side by side.  A sentence that is done changes no more."""

    TENSORS = ("going", "count", "limits", "total", "ended", "ended_total", "ended_at", "ended_from", "token",
               "tokens", "parents")  # fmt: skip

    def __init__(self, sentences: int, steps: int, ends: Ends, how: Beam, device: torch.device):
        self.ends, self.how = ends, how

        def whole(*shape: int) -> Tensor:
            return torch.zeros(sentences, *shape, dtype=torch.long, device=device)

        def low() -> Tensor:
            return torch.full((sentences, how.size), -torch.inf, device=device)

        self.going = torch.zeros(sentences, dtype=torch.bool, device=device)
        self.count, self.limits = whole(), whole()  # (S,) tokens written, and how many may be, each with the end
        self.total = low()  # (S, K) log-probability
        self.ended, self.ended_total = low(), low()  # (S, K) of complete hypotheses: what ranks them, best first
        self.ended_at, self.ended_from = whole(how.size), whole(how.size)  # the step at which each ended, after a beam
        self.token = whole(how.size)  # (S, K) the last one
        self.tokens, self.parents = whole(steps, how.size), whole(steps, how.size)  # (S, L, K)

    def begin(self, slots: Tensor, first: Tensor, limits: Tensor) -> None:  # (n,) each
        """Sentences with their first tokens, in place of those at these slots."""
        self.going.index_fill_(0, slots, True)
        self.count.index_fill_(0, slots, 0)
        self.limits.index_copy_(0, slots, limits)
        for totals in (self.total, self.ended, self.ended_total):
            totals.index_fill_(0, slots, -torch.inf)
        self.total[:, 0].index_fill_(0, slots, 0.0)  # all beams begin alike: let one speak
        self.token.index_copy_(0, slots, first[:, None].expand(-1, self.how.size))

    def extend(self, logits: Tensor) -> Tensor:  # (S * K, V) -> (S, K)
        """Write one more token on every beam; the beam each new one comes from.  Logits of one, (S, V), are enough of
        beams that begin alike."""
        size, vocab = self.how.size, logits.shape[-1]
        if len(logits) < self.total.numel() and vocab < 2 * size:
            logits = logits.repeat_interleave(size, 0)
        # of a beam no more than 2K can be among the best 2K of all, and of these at most K end: K are left that go on
        gains, tokens = self.best_gains(logits, min(2 * size, vocab))  # (S * K, 2K)
        spoken = self.total[:, : len(logits) // len(self.total)]
        totals = (spoken.reshape(-1, 1) + gains).view(len(self.total), -1)
        total, index = totals.topk(min(2 * size, totals.shape[-1]))  # (S, 2K)
        parent, tokens = index // gains.shape[-1], tokens.view(len(total), -1).gather(1, index)
        is_end = tokens == self.ends.end
        self.keep_ended(total[:, :size].masked_fill(~is_end[:, :size], -torch.inf), parent[:, :size])
        total, going = total.masked_fill(is_end, -torch.inf).topk(size)
        return self.go_on(total, tokens.gather(1, going), parent.gather(1, going))

    def go_on(self, total: Tensor, tokens: Tensor, parents: Tensor) -> Tensor:  # (S, K) each -> (S, K)
        """Take these beams, of sentences that are not done."""
        going, size = self.going[:, None], self.how.size
        parents = torch.where(going, parents, torch.arange(size, device=parents.device))
        self.total.copy_(torch.where(going, total, self.total))
        self.token.copy_(torch.where(going, tokens, self.token))
        place = self.count[:, None, None].clamp(max=self.tokens.shape[1] - 1).expand(-1, 1, size)
        self.tokens.scatter_(1, place, self.token[:, None])  # of one that is done, behind its last
        self.parents.scatter_(1, place, parents[:, None])
        self.count += self.going
        # no beginning left that, as it stands, would beat the worst ending kept
        self.going &= self.ended[:, -1] < self.total[:, 0] / self.lengths(self.count)
        return parents

    def best_gains(self, logits: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """The most probable tokens of each beam, best first, and their log-probabilities."""
        gains, tokens = most_probable(logits, most, self.ends.never)
        each = len(gains) // len(self.total)
        at_limit = (self.limits <= self.count + 1)[:, None].expand(-1, each).reshape(-1, 1)
        only_end = torch.full_like(gains[:1], -torch.inf)
        only_end[:, 0] = 0.0
        return torch.where(at_limit, only_end, gains), tokens.masked_fill(at_limit, self.ends.end)

    def keep_ended(self, totals: Tensor, parents: Tensor) -> None:  # (S, K) each
        """The best K complete hypotheses, of those before and the new ones."""
        scores = torch.where(self.going[:, None], totals / self.lengths(self.count + 1)[:, None], -torch.inf)
        ended, index = torch.cat([self.ended, scores], 1).topk(self.how.size)
        steps = self.count[:, None].expand_as(parents)
        new = {"ended_total": totals, "ended_at": steps, "ended_from": parents}
        for name, values in new.items():
            mine = getattr(self, name)
            mine.copy_(torch.cat([mine, values], 1).gather(1, index))
        self.ended.copy_(ended)

    def lengths(self, count: Tensor) -> Tensor:  # (S,) -> (S,)
        """What a log-probability of so many tokens is divided by."""
        return count.clamp(min=1).float() ** self.how.penalty

    def keep(self, kept: Tensor) -> None:
        """Forget the other sentences."""
        for name in self.TENSORS:
            setattr(self, name, getattr(self, name)[kept])

    def found(self, slots: Tensor) -> list[list[Hypothesis]]:
        """The best hypotheses of these sentences, best first."""
        names = "ended", "ended_total", "ended_at", "ended_from"
        scores, totals, at, beam = (getattr(self, name)[slots, : self.how.best].cpu().numpy() for name in names)
        steps = [values[slots, : at.max(initial=0)].cpu().numpy() for values in (self.tokens, self.parents)]
        rows = followed_back(at, beam, *steps)
        parts = zip(rows.tolist(), at.tolist(), scores.tolist(), totals.tolist(), strict=True)
        return [
            [Hypothesis(row[:end], *told) for row, end, *told in zip(*part, strict=True) if told[0] > -np.inf]
            for part in parts
        ]


def followed_back(at: np.ndarray, beam: np.ndarray, tokens: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """The tokens, (S, best, L), of hypotheses that ended at a step after a beam, (S, best) each; what each step wrote
    and from which beam, (S, L, K) each."""
    rows, found = np.arange(len(at))[:, None], np.zeros((*at.shape, tokens.shape[1]), np.int64)
    for step in reversed(range(at.max(initial=0))):
        found[..., step] = tokens[rows, step, beam]
        beam = np.where(step < at, parents[rows, step, beam], beam)
    return found
