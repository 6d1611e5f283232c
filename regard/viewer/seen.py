"""What looking at a reader, a writer and a translator have in common.

Letters: N tokens, V vocabulary, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from regard.attention.watch import Call, brief, collect
from regard.errors import Problem
from regard.layers.watching import Ran, watch_states
from regard.tasks.translate import looks_back
from regard.text.vocabulary import BEGINS, ENDS, MASKS, PADS, UNKNOWNS, Vocabulary
from regard.viewer.explain import BUDGET, Question, explained
from regard.viewer.look import Look, Recurring
from regard.viewer.sides import Side, shown_as
from regard.viewer.watched import Watched, by_layer, only_while_unchanged, recurring

LONGEST = 2048  # pieces that are looked at: the weights of each layer grow with their square
BEST = 5  # predictions that are told of a place
TOGETHER = 64  # places whose predictions are made at once: a vocabulary is wide

Top = list[list[Any]]  # [word, probability] of the best, the best first


@dataclass(frozen=True, eq=False)
class Seen:
    """All that ran while a text was read, a part of it after the other."""

    model: nn.Module
    calls: list[Call]
    runs: list[Ran]
    ends: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # of each part

    def part(self) -> None:
        """A part ends here."""
        begin, _ = self.ends[-1]
        if begin:  # a later one: what it remembers was seen with the parts before it
            self.calls[begin:] = [call if looks_back(call.name) else brief(call) for call in self.calls[begin:]]
        self.ends.append((len(self.calls), len(self.runs)))

    def layers(self, parts: slice, looks: Callable[[str], bool]) -> list[Watched]:
        """The attentions of such names, a layer each."""
        pairs = list(zip(self.ends, self.ends[1:], strict=False))[parts]
        steps = [[call for call in self.calls[a:b] if looks(call.name)] for (a, _), (b, _) in pairs]
        return [Watched.of(layer) for layer in by_layer(steps)]

    def states(self, parts: slice, side: str, prefix: str = "") -> list[Recurring]:
        pairs = list(zip(self.ends, self.ends[1:], strict=False))[parts]
        return recurring(self.model, by_layer([self.runs[a:b] for (_, a), (_, b) in pairs]), side, prefix)


LOCK = RLock()
LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()


def lock_of(model: nn.Module) -> Any:
    """For one who watches at a time: whoever watches a model sees all that is asked of it."""
    with LOCK:
        return LOCKS.setdefault(model, RLock())


@contextmanager
def in_use(model: nn.Module) -> Iterator[None]:
    """A model as it is in use; afterwards it is as it was."""
    with lock_of(model):
        was_training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)


@contextmanager
def watching(model: nn.Module) -> Iterator[Seen]:
    with in_use(model), torch.inference_mode(), collect(model) as calls, watch_states(model) as runs:
        yield Seen(model, calls, runs)


def explainer(model: nn.Module, name: str, question: Callable[[int], Question]) -> Callable[[Look, int], np.ndarray]:
    """What explains the output of a query of the attention of this name.  It is given the look it belongs to: holding
    it would make a cycle, and a look's arrays would stay until a full garbage collection."""

    def explain(look: Look, query: int) -> np.ndarray:  # (4, K)
        mean = look.block(f"{name}/mean")[:, query].mean(0)
        rollout = rolled(look, name, query, mean)
        with in_use(model):
            return explained(question(query), mean, rollout, len(mean))

    return only_while_unchanged(model, explain)


def rolled(look: Look, name: str, query: int, mean: np.ndarray) -> np.ndarray:  # (K,)
    """Where a query's looks lead in the end: from target to source they go on through the encoder's layers."""
    if name != "cross":
        return look.block(f"{name}/rollout")[-1, query]
    through = [attending.name for attending in look.attentions if attending.name == "encoder"]
    return mean @ look.block("encoder/rollout")[-1] if through else mean


def side_of(ids: Sequence[int], vocabulary: Any, specials: Collection[int]) -> Side:
    """Tokens as they are shown; what is unknown or hidden stands for a word, and is none of the special ones."""
    special = {place for place, id in enumerate(ids) if id in specials}
    return Side.of([vocabulary.piece(id) for id in ids], special)


def specials_of(vocabulary: Vocabulary) -> set[int]:
    found: set[int | None] = set(getattr(vocabulary, "specials", ()))
    found |= {vocabulary.special(name) for name in chain(BEGINS, ENDS, PADS)}
    found -= {vocabulary.special(name) for name in chain(UNKNOWNS, MASKS)}
    return {id for id in found if id is not None}


def blank_of(vocabulary: Vocabulary) -> int | None:
    """What stands for a token that is hidden, if there is such a thing."""
    return next((id for name in (*MASKS, *UNKNOWNS) if (id := vocabulary.special(name)) is not None), None)


def words_of(logits: Iterable[Tensor], vocabulary: Vocabulary) -> list[Top]:  # (N, V) each, some places after others
    """The most probable pieces of each place."""
    found: list[Top] = []
    for some in logits:  # a table may have more rows than there are pieces
        found += best(some[:, : vocabulary.size], lambda id: shown_as(vocabulary.piece(id)))
    return found


def best(scores: Tensor, name: Callable[[int], str], *, multi_label: bool = False) -> list[Top]:  # (N, V)
    """The most probable outputs of each row: they exclude one another, or each has a probability of its own."""
    shares = scores.float().sigmoid() if multi_label else scores.float().softmax(-1)
    ranked = shares.topk(min(BEST, scores.shape[-1]))
    rows = zip(ranked.indices.tolist(), ranked.values.tolist(), strict=True)
    return [[[name(id), round(share, 6)] for id, share in zip(*row, strict=True)] for row in rows]


def chances(scores: Tensor, wanted: int, *, multi_label: bool = False) -> Tensor:  # (B, V) -> (B, 1)
    """The log-probability of an answer; where there is but one score that is a number, the score."""
    if multi_label:
        return logsigmoid(scores.float())[:, wanted : wanted + 1]
    return (scores if scores.shape[1] == 1 else scores.float().log_softmax(-1))[:, wanted : wanted + 1]


def told_of_length(pieces: int, kept: int) -> list[str]:
    cut = f"The text has {pieces:,} pieces, of which the model reads the first {kept:,}: the end is cut."
    together = "Occlusion hides several neighbouring tokens at once, since the text is long."
    return [cut] * (kept < pieces) + [together] * (kept * kept > BUDGET)


def check_pieces(pieces: Sequence[int], text: str) -> None:
    if not pieces:
        raise Problem(f"the vocabulary has no pieces for {text[:40]!r}: there is nothing to look at; give another text")
