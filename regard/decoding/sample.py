"""One token after the other: the most probable (greedy), or drawn by chance (temperature, top-k, top-p)."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decoding.best import log_probabilities
from regard.decoding.choosing import GREEDY, Sampling
from regard.decoding.decoder import Decoder, Ends, Hypothesis
from regard.decoding.lines import sample_all
from regard.decoding.scribe import Scribe
from regard.decoding.steps import Abandoned, Steps, run_to_end
from regard.layers.packed import packed
from regard.rows import Tokens


def sample(model: Decoder | Scribe, source: Tokens, ends: Ends, how: Sampling = GREEDY) -> list[Hypothesis]:
    """One hypothesis for each row of the source."""
    return run_to_end(sample_steps(model, source, ends, how))


@torch.inference_mode()
def sample_steps(
    model: Decoder | Scribe, source: Tokens, ends: Ends, how: Sampling = GREEDY, abandoned: Abandoned | None = None
) -> Steps[list[Hypothesis]]:
    """The same step by step.  Rows that are abandoned on the way end there."""
    if not len(source):
        return []
    if isinstance(model, Scribe):
        if how.greedy and model.fits:
            return (yield from sample_all(model, source, ends, abandoned))
        return (yield from sample_steps(model.hand, source.to(model.device), ends, how, abandoned))
    columns, total = yield from sampled(model, source, ends, how, abandoned)
    rows = torch.stack([*columns, torch.full_like(source.rows.lengths, ends.end)], 1).tolist()  # all end
    scores = total.tolist()
    return [Hypothesis(row[: row.index(ends.end)], score, score) for row, score in zip(rows, scores, strict=True)]


def sampled(
    model: Decoder, source: Tokens, ends: Ends, how: Sampling, abandoned: Abandoned | None = None
) -> Steps[tuple[list[Tensor], Tensor]]:
    """The tokens of each step, (B,), and the log-probability of each row, (B,).  What has ended goes on ending."""
    device = source.ids.device
    generator = torch.Generator(device).manual_seed(how.seed)
    columns, total = list[Tensor](), torch.zeros(len(source), device=device)
    rows, limits = torch.arange(len(source), device=device), ends.limits(source)  # rows: those still being written
    with packed(device):
        tokens, state = ends.first(source), model.start(source)
    for length in range(1, int(limits.max()) + 1):
        with packed(device):
            logits, state = model.step(tokens, state)
        yield
        logits, at_limit = ends.allowed(logits), limits[rows] <= length
        tokens = how.choose(logits, generator).masked_fill(at_limit, ends.end)
        gains = log_probabilities(logits, tokens[:, None]).squeeze(-1)
        total[rows] += gains.masked_fill(at_limit, 0.0)  # there was no choice
        columns.append(torch.full_like(limits, ends.end).index_copy(0, rows, tokens))
        kept = (tokens != ends.end).nonzero().squeeze(-1)
        if abandoned is not None:
            kept = kept[[not abandoned(number) for number in rows[kept].tolist()]]
        if not len(kept):
            break
        if len(kept) < len(rows):
            rows, tokens, state = rows[kept], tokens[kept], state.select(kept)
    return columns, total
