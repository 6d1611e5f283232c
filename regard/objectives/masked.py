"""Masked language modelling: words are hidden, and told from those on both sides (BERT, Devlin et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import scores_of, states_of, words_answered
from regard.rows import Tokens


@dataclass(frozen=True, eq=False)
class Hiding:
    """Which pieces may be hidden, how many of them, and behind what.

    Each piece, or each word, is drawn by itself, so a row has its share of hidden pieces on average, not exactly, and a
    short one may have none.  A batch has at least one.
    """

    mask: int
    vocab: int
    special: tuple[int, ...]  # never hidden, and never put in the place of another
    continues: Tensor | None = None  # (V,) bool: pieces that go on with a word, which whole words cannot do without
    share: float = 0.15
    whole_words: bool = False  # all pieces of a word or none
    masked: float = 0.8  # of the hidden, so many become the mask,
    random: float = 0.1  # and so many a random word; the rest stay as they are

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageProblem(f"share={self.share} of the pieces cannot be hidden; give more than 0 and less than 1")
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise UsageProblem(f"masked={self.masked} and random={self.random}: give shares that add up to at most 1")
        if self.whole_words and (self.continues is None or len(self.continues) != self.vocab):
            raise UsageProblem(f"whole words need to know which of the {self.vocab} pieces continue one")

    @cached_property
    def plain(self) -> Tensor:  # (V,) bool
        """The pieces that are not special."""
        plain = torch.ones(self.vocab, dtype=torch.bool)
        plain[[self.mask, *self.special]] = False
        return plain

    @cached_property
    def pool(self) -> Tensor:
        """The ids that a random word is drawn from."""
        return self.plain.nonzero().squeeze(1)

    def hide(self, batch: Batch) -> Batch:
        """The batch with pieces hidden; `places`, (M,), says where and `words`, (M,), what was there."""
        tokens = batch["tokens"]
        places = self.places(tokens)
        words = tokens.ids[places]
        fate = torch.rand(len(places))
        others = self.pool[torch.randint(len(self.pool), (len(places),))]
        shown = torch.where(fate < self.masked + self.random, others, words)
        shown = torch.where(fate < self.masked, self.mask, shown)
        ids = tokens.ids.index_copy(0, places, shown)
        return {**batch, "tokens": Tokens(ids, tokens.rows), "places": places, "words": words}

    def places(self, tokens: Tokens) -> Tensor:  # (M,)
        plain = self.plain[tokens.ids]
        draws = torch.rand(len(tokens.ids))
        if self.whole_words:
            draws = draws[self.word_of(tokens)]  # one for all pieces of a word
        draws = draws.masked_fill(~plain, 1.0)
        limit = draws.min().clamp(min=self.share)  # at least the lowest is chosen, even where it is above the share
        return (plain & (draws <= limit)).nonzero().squeeze(1)

    def word_of(self, tokens: Tokens) -> Tensor:  # (N,)
        """The number of each piece's word.  What begins a row or follows a special token begins a word, whatever it
        looks like: byte-level pieces know the start of a word by its space, and a text has none before it."""
        plain, continues = self.plain[tokens.ids], self.continues[tokens.ids]  # type: ignore[index]
        joined = continues & plain & plain.roll(1) & (tokens.rows.at > 0)
        return (~joined).cumsum(0) - 1


class Masked(Objective):
    """Which words were hidden.  Only their places are scored: 15% of the logits that a whole text would need."""

    name = "masked"

    def __init__(self, hiding: Hiding):
        super().__init__()
        self.hiding = hiding

    def prepare(self, batch: Batch) -> Batch:
        return self.hiding.hide(batch)

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        return self.judge_states(model, states_of(model, batch), batch)

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        hidden = states.index_select(0, batch["places"])  # its way back adds up, that of states[places] sorts first
        rows = batch["tokens"].rows
        scores = partial(scores_of, model, "masked", rows=rows, asker=self)  # (M, W) -> (M, V)
        return words_answered(model, "masked", hidden, batch["words"], scores)
