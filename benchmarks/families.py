"""A small model of every family that learns from text, what it is asked, and a batch for it, in any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from regard.commands.show import make_model
from regard.models.bert import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.lstm import lstm
from regard.models.seq2seq import seq2seq
from regard.models.t5 import t5
from regard.models.transformer import transformer
from regard.models.transformer_xl import transformer_xl
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, Batch
from regard.objectives.translate import Translate
from regard.rows import Rows, Tokens

WIDTH, HEADS, INNER = 256, 4, 1024
MASK, FIRST = 1, 2  # the id that hides, and the first that is a word


@dataclass(frozen=True)
class Sizes:
    length: int = 128
    batch: int = 8
    depth: int = 4
    vocabulary: int = 8000


class Drawn:
    """Batches of rows that are all as long, of ids drawn by chance."""

    def __init__(self, sizes: Sizes, make: Callable[[Tokens, torch.Tensor, int], Batch]):
        self.sizes, self.make = sizes, make

    def at(self, position: int) -> Batch:
        rows = Rows.even(self.sizes.batch, self.sizes.length)
        chance = torch.Generator().manual_seed(position)
        ids, wanted = (torch.randint(FIRST, self.sizes.vocabulary, (rows.total,), generator=chance) for _ in range(2))
        return self.make(Tokens(ids, rows), wanted, position)

    def epoch_of(self, position: int) -> tuple[int, int]:
        return 0, position


def masked(tokens: Tokens, wanted: torch.Tensor, position: int) -> Batch:
    return {"tokens": tokens}


def following(tokens: Tokens, wanted: torch.Tensor, position: int) -> Batch:
    return {"tokens": tokens, "wanted": wanted}


def going_on(tokens: Tokens, wanted: torch.Tensor, position: int) -> Batch:
    """Rows go on where they stopped in the step before."""
    return {"tokens": tokens, "wanted": wanted, "turn": 0, "goes_on": position > 0}


def translated(tokens: Tokens, wanted: torch.Tensor, position: int) -> Batch:
    return {"source": tokens, "target_in": Tokens(wanted, tokens.rows), "target_out": wanted}


def reader(family: str, config: Any) -> Any:
    return new_encoder(family, config, {"masked" if family == "bert" else "write"}).model


def make_bert(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = bert(sizes.depth, WIDTH, HEADS, sizes.vocabulary, longest=sizes.length)
    hiding = Hiding(MASK, sizes.vocabulary, tuple(range(FIRST)))
    return Asked(reader("bert", config), Masked(hiding)), Drawn(sizes, masked)


def make_gpt2(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = gpt2(sizes.depth, WIDTH, HEADS, sizes.vocabulary, longest=sizes.length)
    return Asked(reader("gpt2", config), Next()), Drawn(sizes, following)


def make_transformer_xl(sizes: Sizes) -> tuple[Asked, Drawn]:
    """It remembers as many places as it reads."""
    config = transformer_xl(sizes.depth, WIDTH, HEADS, INNER, vocab=sizes.vocabulary, memory=sizes.length)
    return Asked(reader("transformer-xl", config), Next()), Drawn(sizes, going_on)


def make_lstm(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = lstm(WIDTH, sizes.depth, vocab=sizes.vocabulary)
    return Asked(reader("lstm", config), Next()), Drawn(sizes, going_on)


def make_rnn(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = seq2seq("dot", width=WIDTH, layers=sizes.depth, vocab=sizes.vocabulary)
    return Asked(make_model(config), Translate()), Drawn(sizes, translated)


def make_transformer(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = transformer(sizes.depth, WIDTH, HEADS, INNER, vocab=sizes.vocabulary)
    return Asked(make_model(config), Translate()), Drawn(sizes, translated)


def make_t5(sizes: Sizes) -> tuple[Asked, Drawn]:
    config = t5(sizes.depth, WIDTH, HEADS, INNER, vocab=sizes.vocabulary)
    return Asked(make_model(config), Translate(smoothing=0.0)), Drawn(sizes, translated)


FAMILIES: dict[str, Callable[[Sizes], tuple[Asked, Drawn]]] = {
    "rnn": make_rnn,
    "lstm": make_lstm,
    "transformer": make_transformer,
    "bert": make_bert,
    "gpt2": make_gpt2,
    "t5": make_t5,
    "transformer-xl": make_transformer_xl,
}
