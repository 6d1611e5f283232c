"""Looking is watching, not asking: the weights of every attention that runs inside a `with`.

The fast kernel still computes the output, bit for bit the same; the weights are computed beside it, only for the
layers, heads and rows somebody asked for.  `watch` computes them at once; `collect` keeps what decides them, and they
are computed when they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import allowed_places, padded
from regard.attention.attention import Attention, Watcher
from regard.attention.mask import Mask
from regard.attention.memory import Memory, Room
from regard.attention.position import Position
from regard.attention.route import Meeting, Route
from regard.attention.route_window import Chosen
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
    watchers = [_watcher(one.route, seen.setdefault(name, []), heads, rows) for name, one in watched]
    for (_, attention), watcher in zip(watched, watchers, strict=True):
        attention.watchers.append(watcher)
    try:
        yield seen
    finally:
        for (_, attention), watcher in zip(watched, watchers, strict=True):
            attention.watchers.remove(watcher)


def _watcher(
    route: Route, calls: list[list[Tensor]], heads: Sequence[int] | None, chosen: Sequence[int] | None
) -> Watcher:
    plain = type(route) is Route  # others may decide for all heads together where to look

    @torch.no_grad()
    def look(q: Tensor, memory: Memory, rows: Rows, score: Score, mask: Mask | None, bias: Tensor | None) -> None:
        if chosen is not None:
            index = torch.as_tensor(chosen, device=q.device)
            q, memory, rows, mask, bias = _of_rows(index, q, memory, rows, mask, bias)
        if heads is not None and plain:
            memory = replace(memory, k=memory.k[:, heads], v=memory.v[:, heads])
            q, bias = q[:, heads], bias if bias is None or bias.shape[1] == 1 else bias[:, heads]
        weights = route.weights(Meeting(q, memory, rows, score, mask, bias))  # (B, H, Q, K)
        weights = weights if heads is None or plain else weights[:, heads]
        sizes = zip(weights, rows.lengths.tolist(), memory.rows.lengths.tolist(), strict=True)
        calls.append([w[:, :queries, :keys].clone() for w, queries, keys in sizes])

    return look


def _of_rows(chosen: Tensor, q: Tensor, memory: Memory, rows: Rows, mask: Mask | None, bias: Tensor | None):
    """The same question, asked of the chosen rows alone."""
    tokens, fewer = rows.tokens_of(chosen)
    memory = memory.select(chosen)
    if isinstance(mask, Chosen):
        mask = mask.select(tokens, fewer, chosen)
    elif mask is not None and mask.band is None:  # a mask may depend on the row: give it the numbers it knows
        whole = mask
        mask = Mask(lambda row, query, key: whole.allows(chosen[row], query, key))
    if bias is not None:
        bias = (bias if bias.shape[0] == 1 else bias[chosen])[..., : fewer.longest, : memory.rows.longest]
    return q[tokens], memory, fewer, mask, bias


@dataclass(frozen=True, eq=False)
class Call:
    """One attention as it ran: what decides its weights.  Their matrices are computed by whoever asks for them."""

    name: str  # of the attention; one that layers share has a call for each of them
    q: Tensor  # (N, H, D) before their places are told
    memory: Memory
    rows: Rows
    mask: Mask | None
    places: Tensor  # (N,) of the queries
    given: Tensor | None  # (B or 1, H, Q, K) the stack's bias
    score: Score
    position: Position
    route: Route = field(default_factory=Route)

    @property
    def has_bias(self) -> bool:
        return self.given is not None or type(self.position).bias is not Position.bias

    def queries(self) -> Tensor:  # (N, H, D)
        """As they enter the score; so do the keys of the memory."""
        return self.score.queries(self.position.queries(self.q, self.places))

    def bias(self) -> Tensor | None:  # (B or 1, H, Q, K)
        own = self.position.bias(self.q, self.rows, self.memory.rows, self.mask)
        return own if self.given is None else self.given if own is None else own + self.given

    def weights(self) -> Tensor:  # (B, H, Q, K)
        return self.route.weights(Meeting(self.queries(), self.memory, self.rows, self.score, self.mask, self.bias()))

    def scores(self) -> Tensor:  # (B, H, Q, K)
        """What the softmax is of; -inf where a query may not look."""
        logits = self.score.logits(padded(self.queries(), self.rows), padded(self.memory.k, self.memory.rows))
        bias, allowed = self.bias(), allowed_places(self.rows, self.memory.rows, self.mask)
        logits = logits if bias is None else logits + bias
        if type(self.route) is not Route:
            return logits.masked_fill(self.weights() == 0, -torch.inf)
        return logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)


@contextmanager
def collect(model: nn.Module) -> Iterator[list[Call]]:
    """Every attention that runs inside, in the order of their running."""
    calls: list[Call] = []
    with ExitStack() as stack:
        for name, part in model.named_modules():
            if isinstance(part, Attention):
                handle = part.register_forward_pre_hook(_collector(name, part, calls), with_kwargs=True)
                stack.callback(handle.remove)
        yield calls


def _collector(name: str, attention: Attention, calls: list[Call]) -> Any:
    # copies, which are small: who asks for weights later asks for those of today, whatever the model learns till then
    score, position, route = deepcopy(attention.score), deepcopy(attention.position), deepcopy(attention.route)

    @torch.no_grad()
    def look(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        x, memory, rows, mask, start, bias = asked(*given, **named)
        q = attention.split(attention.q(x)).detach()
        memory = memory.flat() if isinstance(memory, Room) else memory
        memory = replace(memory, k=memory.k.detach(), v=memory.v.detach())
        calls.append(Call(name, q, memory, rows, mask, rows.at + start, bias, score, position, route))

    return look


def asked(
    x: Tensor,
    memory: Memory,
    rows: Rows,
    mask: Mask | None = None,
    start: Tensor | int = 0,
    bias: Tensor | None = None,
    q: Tensor | None = None,
) -> tuple[Tensor, Memory, Rows, Mask | None, Tensor | int, Tensor | None]:
    """What an attention was called with, in order: the same parameters as its own."""
    return x, memory, rows, mask, start, bias


def brief(step: Call) -> Call:
    """A later step as `joined` needs it, which has seen the keys before: of its memory only what is new, and how long
    it was.  Memories of all steps would grow with the square of a text."""
    new, memory = step.rows.total, step.memory
    return replace(step, memory=Memory(memory.k[-new:].clone(), memory.v[-new:].clone(), memory.rows))


def joined(steps: Sequence[Call]) -> Call:
    """The calls by which one layer read a text, a part after the other, as one call that looks where they looked."""
    first, last = steps[0], steps[-1]
    if len(steps) == 1 or last.route.anew:
        return last
    rows = Rows.of([sum(step.rows.total for step in steps)], first.q.device)
    q, places = torch.cat([step.q for step in steps]), torch.cat([step.places for step in steps])
    one = replace(first, q=q, places=places, rows=rows)
    if all(step.memory.rows is last.memory.rows for step in steps):  # a source, remembered once
        return one
    # what is new to a memory are the places of the queries, its last ones
    new = [(step.memory, step.rows.total) for step in steps[1:]]
    k = torch.cat([first.memory.k, *(memory.k[-count:] for memory, count in new)])
    v = torch.cat([first.memory.v, *(memory.v[-count:] for memory, count in new)])
    memory = Memory(k, v, Rows.of([len(k)], k.device))
    return replace(one, memory=memory, mask=_seen(steps), given=_beside(steps, len(k)))


def _forgotten(steps: Sequence[Call]) -> list[int]:
    """How many of the first places each step no longer had in its memory: Transformer-XL forgets."""
    places, found = steps[0].memory.rows.total, [0]
    for step in steps[1:]:
        places += step.rows.total
        found.append(places - step.memory.rows.total)
    return found


def _seen(steps: Sequence[Call]) -> Mask | None:
    """The mask of all steps, and from which place on each query could look."""
    mask, forgotten = steps[0].mask, _forgotten(steps)
    if mask is None or not any(forgotten):
        return mask
    counts = torch.tensor([step.rows.total for step in steps])
    begins = torch.tensor(forgotten).repeat_interleave(counts).to(steps[0].q.device)
    before = len(steps[0].memory.k) - steps[0].rows.total
    return mask & Mask(lambda row, q, k: k >= begins[q - before])


def _beside(steps: Sequence[Call], keys: int) -> Tensor | None:
    """The biases of all steps, each at the places of its own keys."""
    if steps[0].given is None:
        return None
    given = [step.given for step in steps if step.given is not None]
    sides = [(first, keys - first - bias.shape[-1]) for first, bias in zip(_forgotten(steps), given, strict=True)]
    return torch.cat([F.pad(bias, side) for bias, side in zip(given, sides, strict=True)], 2)
