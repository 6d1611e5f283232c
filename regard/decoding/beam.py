"""Beam search: keep the few most probable beginnings of each sentence, and the best endings met on the way.

Letters: S sentences still being written, K beams of each, V vocabulary, L tokens written so far.
"""

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


BEAM = Beam()


@torch.inference_mode()
def beam_search(model: Decoder, source: Tokens, ends: Ends, how: Beam = BEAM) -> list[list[Hypothesis]]:
    """The best hypotheses for each row of the source, best first."""
    found: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    if not len(source):
        return found
    search = _Search(source, ends, how)
    with packed(source.ids.device):
        state = model.start(source, how.size)
        while True:
            logits, state = model.step(search.written[:, -1], state)
            origin, done = search.extend(logits), search.done()
            finished = done.nonzero().squeeze(-1).tolist()  # the one wait for the device in a step
            for sentence in finished:
                found[int(search.sentence[sentence])] = search.best_of(sentence)
            if len(finished) == len(done):
                return found
            state = state.select(search.drop(done, origin) if finished else origin)


class _Search:
    """What a search knows between two steps.  Beams of one sentence lie side by side."""

    def __init__(self, source: Tokens, ends: Ends, how: Beam):
        self.ends, self.how = ends, how
        count, device = len(source), source.ids.device
        self.sentence = torch.arange(count, device=device)  # (S,) its number in the source
        self.limits = ends.limits(source)  # (S,)
        self.written = ends.first(source).repeat_interleave(how.size)[:, None]  # (S * K, 1 + L)
        self.total = torch.full((count, how.size), -torch.inf, device=device)  # (S, K) log-probability
        self.total[:, 0] = 0.0  # all beams begin alike: let one speak
        self.ended = torch.full((count, how.size), -torch.inf, device=device)  # (S, K) scores of complete hypotheses
        self.ended_total = self.ended.clone()
        self.ended_tokens = self.written.view(count, how.size, 1)  # (S, K, 1 + L), the last token(s) repeated

    @property
    def length(self) -> int:  # tokens written, the ending counted
        return self.written.shape[1] - 1

    def extend(self, logits: Tensor) -> Tensor:
        """Write one more token on every beam; the beam each new one comes from."""
        count, size, vocab = len(self.sentence), self.how.size, logits.shape[-1]
        # of a beam no more than 2K can be among the best 2K of all, and of these at most K end: K are left that go on
        gains, tokens = self.best_gains(logits, min(2 * size, vocab))  # (S * K, 2K)
        totals = (self.total.view(-1, 1) + gains).view(count, -1)
        total, index = totals.topk(min(2 * size, totals.shape[-1]))  # (S, 2K)
        first = torch.arange(count, device=logits.device)[:, None] * size
        parent = index // gains.shape[-1] + first
        tokens = tokens.view(count, -1).gather(1, index)
        grown = torch.cat([self.written[parent], tokens.unsqueeze(-1)], -1)  # (S, 2K, 1 + L)
        is_end = tokens == self.ends.end
        self.keep_ended(total[:, :size].masked_fill(~is_end[:, :size], -torch.inf), grown[:, :size])
        self.total, going = total.masked_fill(is_end, -torch.inf).topk(size)
        self.written = grown.gather(1, going.unsqueeze(-1).expand(-1, -1, grown.shape[-1])).flatten(0, 1)
        return parent.gather(1, going).flatten()

    def best_gains(self, logits: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """The most probable tokens of each beam, best first, and their log-probabilities."""
        gains, tokens = best(self.ends.allowed(logits).float().log_softmax(-1), most)
        at_limit = (self.limits <= self.length + 1).repeat_interleave(self.how.size)[:, None]
        only_end = torch.full_like(gains[:1], -torch.inf)
        only_end[:, 0] = 0.0
        return torch.where(at_limit, only_end, gains), tokens.masked_fill(at_limit, self.ends.end)

    def keep_ended(self, totals: Tensor, tokens: Tensor) -> None:
        """The best K complete hypotheses, of those before and the new ones."""
        scores = torch.cat([self.ended, totals / (tokens.shape[-1] - 1) ** self.how.penalty], 1)
        longer = torch.cat([self.ended_tokens, self.ended_tokens[..., -1:]], -1)
        self.ended, index = scores.topk(self.how.size)
        self.ended_total = torch.cat([self.ended_total, totals], 1).gather(1, index)
        every = torch.cat([longer, tokens], 1)
        self.ended_tokens = every.gather(1, index.unsqueeze(-1).expand(-1, -1, every.shape[-1]))

    def done(self) -> Tensor:  # (S,)
        """No beginning left that, as it stands, would beat the worst ending kept."""
        hope = self.total[:, 0] / max(self.length, 1) ** self.how.penalty
        return self.ended[:, -1] >= hope

    def drop(self, done: Tensor, origin: Tensor) -> Tensor:
        """Forget the sentences that are done."""
        kept = (~done).nonzero().squeeze(-1)
        size = self.how.size
        for name in ("sentence", "limits", "total", "ended", "ended_total", "ended_tokens"):
            setattr(self, name, getattr(self, name)[kept])
        self.written = self.written.view(len(done), size, -1)[kept].flatten(0, 1)
        return origin.view(-1, size)[kept].flatten()

    def best_of(self, sentence: int) -> list[Hypothesis]:
        rows = zip(self.ended[sentence].tolist(), self.ended_total[sentence].tolist(), strict=True)
        every = self.ended_tokens[sentence, :, 1:].tolist()
        kept = [(tokens, *row) for tokens, row in zip(every, rows, strict=True) if row[0] > -torch.inf]
        cut = [Hypothesis(tokens[: tokens.index(self.ends.end)], *row) for tokens, *row in kept]
        return cut[: self.how.best]
