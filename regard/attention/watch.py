"""Looking is watching, not asking: the weights of every attention that runs inside a `with`.

The fast kernel still computes the output, bit for bit the same; the weights are computed beside it, only for the
layers, heads and rows somebody asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from regard.attention.attend import attention_weights
from regard.attention.attention import Attention, Watcher
from regard.attention.mask import Mask
from regard.attention.memory import Memory
from regard.attention.score import Score
from regard.errors import UsageProblem
from regard.rows import Rows

Seen = dict[str, list[list[Tensor]]]  # name of the attention -> its calls in order -> a row each: (H, queries, keys)


@contextmanager
def watch(
    model: nn.Module, layers: str = "*", *, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None
) -> Iterator[Seen]:
    """Collect weights of the attentions whose name matches `layers` (as in "decoder.*.cross"), without padding."""
    seen: Seen = {}
    attentions = {name: m for name, m in model.named_modules() if isinstance(m, Attention)}
    watched = [(name, attention) for name, attention in attentions.items() if fnmatchcase(name, layers)]
    if not watched and layers != "*":
        raise UsageProblem(f"no attention is called {layers!r}; there are: {', '.join(attentions) or 'none'}")
    watchers = [_watcher(seen.setdefault(name, []), heads, rows) for name, _ in watched]
    for (_, attention), watcher in zip(watched, watchers, strict=True):
        attention.watchers.append(watcher)
    try:
        yield seen
    finally:
        for (_, attention), watcher in zip(watched, watchers, strict=True):
            attention.watchers.remove(watcher)


def _watcher(calls: list[list[Tensor]], heads: Sequence[int] | None, chosen: Sequence[int] | None) -> Watcher:
    @torch.no_grad()
    def look(q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None, bias: Tensor | None) -> None:
        if chosen is not None:
            index = torch.as_tensor(chosen, device=q.device)
            q, memory, rows, mask, bias = _of_rows(index, q, memory, rows, mask, bias)
        if heads is not None:
            memory = replace(memory, k=memory.k[:, heads], v=memory.v[:, heads])
            q, bias = q[:, heads], bias if bias is None or bias.shape[1] == 1 else bias[:, heads]
        weights = attention_weights(q, memory, rows, score, mask, bias)  # (B, H, Q, K)
        sizes = zip(weights, rows.lengths.tolist(), memory.rows.lengths.tolist(), strict=True)
        calls.append([w[:, :queries, :keys].clone() for w, queries, keys in sizes])

    return look


def _of_rows(chosen: Tensor, q: Tensor, memory: Memory, rows: Rows, mask: Mask | None, bias: Tensor | None):
    """The same question, asked of the chosen rows alone."""
    tokens, fewer = rows.tokens_of(chosen)
    memory = memory.select(chosen)
    if mask is not None and mask.band is None:  # a mask may depend on the row: give it the numbers it knows
        whole = mask
        mask = Mask(lambda row, query, key: whole.allows(chosen[row], query, key))
    if bias is not None:
        bias = (bias if bias.shape[0] == 1 else bias[chosen])[..., : fewer.longest, : memory.rows.longest]
    return q[tokens], memory, fewer, mask, bias
