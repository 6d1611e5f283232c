"""Going on with texts as a stream: many at once, of unequal length, each with its own chance, until each is done.

Letters: B texts still being written, V vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.decoding.choosing import Choosing, Sampling
from regard.decoding.flow import Flow, Text, groups
from regard.decoding.lines import lines_of
from regard.decoding.scribe import Scribe
from regard.device import widest_float
from regard.errors import UsageProblem
from regard.layers.packed import packed
from regard.rows import Tokens
from regard.text.streaming import Folded, Stops, Unfolding
from regard.text.vocabulary import Vocabulary

Why = Literal["end", "stop", "most", "places"]  # its end was written, a stop string, enough tokens; the model is full


@dataclass(frozen=True)
class Writing:
    """How to go on with a text.  A temperature of 0, or top_k=1, is greedy."""

    most: int = 100  # tokens to write
    temperature: float = 1.0
    top_k: int | None = None  # only the k most probable
    top_p: float | None = None  # only the fewest that are together at least so probable (Holtzman et al., 2020)
    penalty: float = 1.0  # of tokens that are there already (Keskar et al., 2019); 1: none
    stop: tuple[str, ...] = ()  # a text ends before any of these
    samples: int = 1  # texts from each prompt
    seed: int = 0
    window: bool = False  # go on when the model has no place left, by reading only the last tokens again

    def __post_init__(self) -> None:
        if self.most < 1 or self.samples < 1:
            raise UsageProblem(f"{self.most} tokens of {self.samples} texts: ask for at least 1 of each")
        if not 0 < self.penalty < float("inf"):
            raise UsageProblem(f"penalty {self.penalty}: expected a number above 0; 1 is none")
        if self.seed < 0:
            raise UsageProblem(f"seed {self.seed}: expected 0 or more")
        for stop in self.stop:
            if not stop:
                raise UsageProblem("an empty stop string stands everywhere; give one with a character, or none")
            if any("\ud800" <= character <= "\udfff" for character in stop):
                raise UsageProblem(f"the stop string {stop!r} has half a character; give whole ones")
        self.sampling  # noqa: B018 (it checks the rest)

    @cached_property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)


WRITING = Writing()


@dataclass(frozen=True)
class Limits:
    """What a model sets: the token that ends a text, if there is one; the places of a row; tokens that exist, and of
    those the ones that are not to be written."""

    end: int | None
    places: int
    vocab: int
    never: tuple[int, ...] = ()


@dataclass(frozen=True)
class Written:
    """What was written after a prompt."""

    prompt: str
    text: str
    why: Why | None  # it stopped; None: it was interrupted
    tokens: list[int]  # without the one that ends it
    log_probability: float  # of the tokens and the end, as the model has it


@dataclass(frozen=True)
class Piece:
    """New text of a row; and all of it, once it is done."""

    row: int
    text: str
    done: Written | None = None


class Draft:
    """A text as it is written.  Its chance is its own: what is drawn does not depend on what is beside it."""

    def __init__(self, row: int, prompt: str, ids: list[int], told: Unfolding | Folded, how: Writing, repeat: int = 0):
        self.row, self.prompt, self.how = row, prompt, how
        self.ids, self.given = list(ids), len(ids)
        self.first = 0  # from where on it is read
        self.told, self.stops = told, Stops(how.stop)
        self.chance = np.random.default_rng([how.seed, repeat, *ids])
        self.text, self.log_probability = "", 0.0
        self.why: Why | None = None
        self.abandoned = False  # nobody waits for it: it ends after the step that is under way

    @property
    def goes_on(self) -> bool:
        return self.why is None and not self.abandoned

    def add(self, token: int, log_probability: float, limits: Limits) -> Piece | None:
        """Write one more token; the piece there is to show."""
        self.log_probability += log_probability
        new = ""
        if token != limits.end:
            self.ids.append(token)
            new = self.stops.add(self.told.add(token))
        self.why = self.reason(token, limits)
        if self.why is not None:
            new += self.stops.add(self.told.rest()) + self.stops.rest()
        self.text += new
        done = self.written() if self.why else None
        return Piece(self.row, new, done) if new or done else None

    def reason(self, token: int, limits: Limits) -> Why | None:
        if token == limits.end:
            return "end"
        if self.stops.found:
            return "stop"
        if len(self.ids) - self.given >= self.how.most:
            return "most"
        return "places" if self.is_full(limits) and not self.how.window else None

    def is_full(self, limits: Limits) -> bool:
        """There is no place from which to read its last token."""
        return len(self.ids) - self.first > limits.places

    def turn_over(self, limits: Limits) -> None:
        """Read only the last tokens from now on."""
        self.first = len(self.ids) - max(limits.places // 2, 1)

    def written(self) -> Written:
        return Written(self.prompt, self.text, self.why, self.ids[self.given :], self.log_probability)


def drafts_of(
    prompts: Sequence[tuple[str, list[int]]], vocabulary: Vocabulary, how: Writing, *, streamed: bool = True
) -> list[Draft]:
    """A draft, or several, for each prompt and its ids.  A prompt that comes again draws something else.  Texts that
    are not read as they are written, and in which no string is looked for, are decoded once they are done."""
    drafts, times = list[Draft](), Counter[tuple[int, ...]]()
    unfold = Unfolding if streamed or how.stop else Folded
    for text, ids in prompts:
        for _ in range(how.samples):
            drafts.append(Draft(len(drafts), text, ids, unfold(vocabulary, ids), how, times[tuple(ids)]))
            times[tuple(ids)] += 1
    return drafts


def generate(model: Any, drafts: Sequence[Draft], limits: Limits, how: Writing = WRITING) -> Iterator[Piece]:
    """Go on with texts, none of them empty, and hand out what is new of each as soon as it can be read."""
    for pieces in generate_steps(model, drafts, limits, how):
        yield from pieces


@torch.inference_mode()
def generate_steps(
    model: Any, drafts: Sequence[Draft], limits: Limits, how: Writing = WRITING
) -> Iterator[list[Piece]]:
    """The same step by step: what is new after each, which may be nothing.  Drafts can be abandoned between steps."""
    if not drafts:
        return
    if isinstance(model, Scribe):
        if model.fits:
            yield from flowing(model, drafts, limits, how)
            return
        model = model.hand
    batch = _Batch(model, list(drafts), limits, how)
    while batch.drafts:
        tokens, gains = batch.choose()
        chosen = zip(batch.drafts, tokens.tolist(), gains.tolist(), strict=True)
        yield [piece for draft, token, gain in chosen if (piece := draft.add(token, gain, limits))]
        batch.go_on(tokens)


def flowing(scribe: Scribe, drafts: Sequence[Draft], limits: Limits, how: Writing) -> Iterator[list[Piece]]:
    """The same in slots: a draft's goes to the next when it is done, or has no place left and is read anew."""
    choosing = choosing_of(limits, how)
    for slots, places, some in groups(scribe, [text_of(draft, limits) for draft in drafts], 1):
        with lines_of(scribe, slots, places, choosing, limits.end) as stage:
            flow = Flow(stage, some)
            for told in flow.steps():
                pieces = [text.about.add(int(token), gain, limits) for text, (token, gain) in told]
                yield [piece for piece in pieces if piece]
                for text, _ in told:
                    go_on(flow, text, limits)


def go_on(flow: Flow, text: Text, limits: Limits) -> None:
    """After a step of a draft: whether its slot is free; one without a place left waits to be read anew."""
    draft: Draft = text.about
    text.left = 0 if draft.why == "end" else text.left - 1
    text.done = not draft.goes_on or not text.left
    if draft.goes_on and not text.left:
        draft.turn_over(limits)
        flow.waiting.append(text_of(draft, limits))


def text_of(draft: Draft, limits: Limits) -> Text:
    """What is left to write of a draft, as far as there are places."""
    *before, last = draft.ids[draft.first :]
    return Text(before, last, min(draft.how.most - len(draft.ids) + draft.given, limits.places - len(before)), draft)


def choosing_of(limits: Limits, how: Writing) -> Choosing:
    return Choosing(replace(how.sampling, seed=0), how.penalty, limits.vocab, limits.never)


class _Batch:
    """The drafts still being written, and where the model stands in each."""

    def __init__(self, model: Any, drafts: list[Draft], limits: Limits, how: Writing):
        self.model, self.drafts, self.limits, self.how = model, drafts, limits, how
        self.device, self.choosing = next(model.parameters()).device, choosing_of(limits, how)
        self.read()
        self.seen = None if how.penalty == 1 else self.tokens_seen()  # (B, V) bool

    def read(self) -> None:
        """Logits of what comes next, (B, V), and the state.  Drafts that are the same so far are read once."""
        rows = [tuple(draft.ids[draft.first :]) for draft in self.drafts]
        number = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        tokens = Tokens.of(list(number), self.device)
        states, self.state = self.model.read(tokens)
        self.logits = self.model.logits(states[tokens.rows.last])
        if len(number) < len(rows):
            origin = torch.tensor([number[row] for row in rows], device=self.device)
            self.logits, self.state = self.logits[origin], self.state.select(origin)

    def tokens_seen(self) -> Tensor:
        seen = torch.zeros(len(self.drafts), self.limits.vocab, dtype=torch.bool)
        for row, draft in zip(seen, self.drafts, strict=True):
            row[draft.ids] = True
        return seen.to(self.device)

    def choose(self) -> tuple[Tensor, Tensor]:
        """A token for each draft, (B,), and how probable the model finds it, (B,)."""
        chance = None
        if not self.how.sampling.greedy:
            chances = [draft.chance.random() for draft in self.drafts]
            chance = torch.tensor(chances, dtype=widest_float(self.device), device=self.device)
        return self.choosing(self.logits, self.seen, chance)

    def go_on(self, tokens: Tensor) -> None:
        """Let those leave that are done, and read the new token of the others."""
        kept = torch.tensor([n for n, draft in enumerate(self.drafts) if draft.goes_on], device=self.device)
        self.drafts = [draft for draft in self.drafts if draft.goes_on]
        if not self.drafts:
            return
        if self.seen is not None:
            self.seen = self.seen[kept].scatter(1, tokens[kept, None], True)
        full = [draft for draft in self.drafts if draft.is_full(self.limits)]
        for draft in full:
            draft.turn_over(self.limits)
        if full:  # a state cannot forget its first places, so all are read again: the full ones from their middle
            self.read()
            return
        state = self.state if len(kept) == len(tokens) else self.state.select(kept)
        with packed(self.device):  # not longer: others compute too, before the next step
            self.logits, self.state = self.model.step(tokens[kept], state)
