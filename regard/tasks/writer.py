"""A language model with its tokenizer, as a person calls it: it goes on with texts, and tells how probable they are."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.data.batches import sorted_batches
from regard.data.whole import LineEncoder
from regard.decoding.generate import WRITING, Limits, Piece, Writing, Written, drafts_of, generate
from regard.decoding.scribe import Precision, Scribe
from regard.device import widest_float
from regard.errors import Problem, UsageProblem
from regard.layers.longest import longest_row
from regard.rows import Tokens
from regard.tasks.reader import Reader

BUDGET = 8192  # tokens that a batch may come to: their keys and values are kept
Pair = tuple[list[int], list[int]]  # the ids of a prompt, and of what follows it


@dataclass(frozen=True)
class Told:
    """How probable a continuation is after its prompt."""

    log_probability: float  # of all its tokens together
    tokens: int
    cut: int = 0  # tokens at the prompt's beginning that were not read

    @property
    def mean(self) -> float:
        return self.log_probability / self.tokens


class Writer(Reader):
    """A reader whose model has the head of a language model."""

    @classmethod
    def of(cls, reader: Reader) -> Writer:
        """The same model, if it is a language model."""
        if not reader.tells:
            raise Problem("this model was not trained to write; give a language model, such as GPT-2")
        return cls(reader.published, reader.tokenizer, reader.pooling)

    @cached_property
    def scribe(self) -> Scribe:
        """What writes: on a GPU by CUDA graphs."""
        return Scribe(self.model)

    @property
    def precision(self) -> Precision:
        """Of the arithmetic in writing."""
        return self.scribe.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        self.scribe = Scribe(self.model, precision, self.scribe.launch)

    @cached_property
    def limits(self) -> Limits:
        never = tuple(id for id in self.tokenizer.specials if id != self.end)  # <unk> is read, and not to be written
        return Limits(self.end, longest_row(self.model), self.tokenizer.size, never)

    @cached_property
    def end(self) -> int | None:
        """The token between texts: writing ends with it, and begins after it where there is no prompt."""
        try:
            return self.tokenizer.end
        except Problem:
            return None

    @cached_property
    def keeps_lines(self) -> bool:
        return LineEncoder(self.tokenizer).keeps_lines

    def __call__(self, prompt: str, **settings: Any) -> str:
        """What follows one prompt; the settings are those of Writing."""
        return self.generate([prompt], Writing(**settings))[0].text

    def generate(self, prompts: Sequence[str], how: Writing = WRITING) -> list[Written]:
        """What follows each prompt, in their order; of several samples, those of a prompt lie side by side."""
        done = {piece.row: piece.done for piece in self.pieces(prompts, how, streamed=False) if piece.done}
        return [done[row] for row in range(len(done))]

    def stream(self, prompts: Sequence[str], how: Writing = WRITING) -> Iterator[Piece]:
        """The same, as it is written: a piece has the number of its row, and its last one all that was written."""
        return self.pieces(prompts, how, streamed=True)

    def pieces(self, prompts: Sequence[str], how: Writing, streamed: bool) -> Iterator[Piece]:
        rows = self.begun(prompts)
        kept = [self.fitted(prompt, len(row), how) for prompt, row in zip(prompts, rows, strict=True)]
        drafts = drafts_of(list(zip(prompts, rows, strict=True)), self.tokenizer, how, streamed=streamed)
        for draft in drafts:
            draft.first = draft.given - kept[draft.row // how.samples]
        self.model.eval()
        cost = max((min(draft.given + how.most, self.limits.places) for draft in drafts), default=0)
        # slots are filled again as texts are done, so that one batch is enough
        budget = sys.maxsize if self.scribe.fits else BUDGET
        for batch in sorted_batches([cost] * len(drafts), budget):  # all alike: in their order, as they are to be shown
            yield from generate(self.scribe, [drafts[number] for number in batch], self.limits, how)

    def begun(self, prompts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts.  An empty one begins where another text has ended."""
        rows, before = self.encoded(prompts), [] if self.end is None else [self.end]
        if not before and [] in rows:
            raise Problem("an empty prompt, and the vocabulary has no token that stands before a text; give a word")
        return [row or before for row in rows]

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, lines kept as they were in training."""
        if self.keeps_lines or self.end is None:
            return self.tokenizer.encode_batch(list(texts))
        every = (self.tokenizer.encode_batch(text.split("\n")) for text in texts)
        return [[id for line in lines for id in (self.end, *line)][1:] for lines in every]

    def fitted(self, prompt: str, length: int, how: Writing) -> int:
        """How many tokens of a prompt are read, the last ones, so that there is room to go on."""
        places = self.limits.places
        if length <= places:
            return length
        if not how.window:
            raise Problem(
                f"the prompt {begins(prompt)} has {length:,} tokens, and the model {places:,} places; shorten it, or "
                "say --window (window=True) to read only its last tokens"
            )
        kept = max(places + 1 - how.most, places // 2, 1)
        warnings.warn(f"of the {length:,} tokens of {begins(prompt)} only the last {kept:,} are read", stacklevel=3)
        return kept

    def log_probabilities(
        self, prompts: Sequence[str], continuations: Sequence[str], *, window: bool = False
    ) -> list[Told]:
        """How probable each continuation is after its prompt.  Prompts that are the same are read once.  With a
        window, what does not fit loses the prompt's beginning."""
        pairs = [self.joined(*pair) for pair in zip(prompts, continuations, strict=True)]
        cut = [self.lost(prompt, pair, window) for prompt, pair in zip(prompts, pairs, strict=True)]
        pairs = [(before[lost:], after) for (before, after), lost in zip(pairs, cut, strict=True)]
        number = {row: number for number, row in enumerate(dict.fromkeys(tuple(row) for row, _ in pairs))}
        owners = [number[tuple(row)] for row, _ in pairs]
        told, rows = [Told(0.0, 0)] * len(pairs), list(number)
        fans = torch.tensor(owners).bincount(minlength=len(rows)).tolist() if rows else []
        self.model.eval()
        costs = [len(row) * fan for row, fan in zip(rows, fans, strict=True)]  # read once, but remembered for each
        for batch in sorted_batches(costs, BUDGET):
            place = {row: at for at, row in enumerate(batch)}
            some = [pair for pair, owner in enumerate(owners) if owner in place]
            after = [(place[owners[pair]], pairs[pair][1]) for pair in some]
            for pair, gain in zip(some, self.gains([rows[row] for row in batch], after), strict=True):
                told[pair] = Told(gain, len(pairs[pair][1]), cut[pair])
        return told

    @torch.inference_mode()
    def gains(self, rows: list[tuple[int, ...]], after: list[tuple[int, list[int]]]) -> list[float]:
        """The sums of log-probabilities of tokens, each after a row of this number."""
        prompts, vocab = Tokens.of(rows, self.device), self.limits.vocab

        def chances(states: Tensor) -> Tensor:  # (N, W) -> (N, V)
            return self.model.logits(states)[:, :vocab].float().log_softmax(-1)

        states, state = self.model.read(prompts)
        owner = torch.tensor([row for row, _ in after], device=self.device)
        first = torch.tensor([tokens[0] for _, tokens in after], device=self.device)
        total = chances(states[prompts.rows.last])[owner, first].to(widest_float(self.device))
        longer = [number for number, (_, tokens) in enumerate(after) if len(tokens) > 1]
        if longer:
            more = Tokens.of([after[number][1][:-1] for number in longer], self.device)
            wanted = Tokens.of([after[number][1][1:] for number in longer], self.device).ids
            states, _ = self.model.read(more, state.select(owner[longer]))
            found = chances(states).gather(1, wanted[:, None]).squeeze(1).to(total.dtype)
            total.index_add_(0, torch.tensor(longer, device=self.device)[more.rows.row], found)
        return total.tolist()

    def joined(self, prompt: str, continuation: str) -> Pair:
        """The ids of a prompt and of what follows it: those of both together, or where a piece would lie across, of
        each by itself."""
        [before] = self.begun([prompt])
        both, alone = self.encoded([prompt + continuation, continuation])
        after = both[len(before) :] if both[: len(before)] == before else alone
        if not after:
            raise UsageProblem(f"the continuation {continuation!r} has no tokens; give a word")
        return before, after

    def lost(self, prompt: str, pair: Pair, window: bool) -> int:
        """How many tokens of a prompt the model has no places for."""
        (before, after), places = pair, self.limits.places
        lost = max(len(before) + len(after) - 1 - places, 0)  # the last token is told, and not read
        if lost >= len(before) or (lost and not window):
            raise Problem(
                f"the prompt {begins(prompt)} and what follows have {len(before):,} and {len(after):,} tokens, and the "
                f"model {places:,} places; shorten them, or say window=True to read only the prompt's last tokens"
            )
        return lost


def begins(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
