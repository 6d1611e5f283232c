"""One token after the other: the most probable (greedy), or drawn by chance (temperature, top-k, top-p)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.decoder import Decoder, Ends, Hypothesis
from regard.errors import UsageProblem
from regard.layers.packed import packed
from regard.rows import Tokens


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


@torch.inference_mode()
def sample(model: Decoder, source: Tokens, ends: Ends, how: Sampling = GREEDY) -> list[Hypothesis]:
    """One hypothesis for each row of the source."""
    if not len(source):
        return []
    with packed(source.ids.device):
        columns, total = sampled(model, source, ends, how)
    rows = torch.stack([*columns, torch.full_like(source.rows.lengths, ends.end)], 1).tolist()  # all end
    scores = total.tolist()
    return [Hypothesis(row[: row.index(ends.end)], score, score) for row, score in zip(rows, scores, strict=True)]


def sampled(model: Decoder, source: Tokens, ends: Ends, how: Sampling) -> tuple[list[Tensor], Tensor]:
    """The tokens of each step, (B,), and the log-probability of each row, (B,).  What has ended goes on ending."""
    device = source.ids.device
    generator = torch.Generator(device).manual_seed(how.seed)
    columns, total = list[Tensor](), torch.zeros(len(source), device=device)
    rows, limits = torch.arange(len(source), device=device), ends.limits(source)  # rows: those still being written
    tokens, state = ends.first(source), model.start(source)
    for length in range(1, int(limits.max()) + 1):
        logits, state = model.step(tokens, state)
        logits, at_limit = ends.allowed(logits), limits[rows] <= length
        tokens = how.choose(logits, generator).masked_fill(at_limit, ends.end)
        gains = logits.float().log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)
        total[rows] += gains.masked_fill(at_limit, 0.0)  # there was no choice
        columns.append(torch.full_like(limits, ends.end).index_copy(0, rows, tokens))
        kept = (tokens != ends.end).nonzero().squeeze(-1)
        if not len(kept):
            break
        if len(kept) < len(rows):
            rows, tokens, state = rows[kept], tokens[kept], state.select(kept)
    return columns, total
