"""Bigrams: what comes next is told by the last word alone, P(w | v) = C(v w) / C(v), smoothed by what follows any word:
interpolated Kneser-Ney (Kneser and Ney, 1995; Chen and Goodman, 1998), with the discounts of Ney et al. (1994).

Letters: N tokens, V vocabulary, P pairs that were seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import OwnSettings
from regard.checkpoints.weights import set_weights, weights_of
from regard.errors import Problem
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.sizes import check_sizes
from regard.models.encoder import HeadedEncoder, NextHead, Role
from regard.models.published import EncoderFamily, Published
from regard.rows import Tokens

BLOCK = 2**22  # ids that are counted at once
SHARE = 0.5  # discounted where nothing was seen only once, from which to tell


@dataclass(frozen=True)
class BigramConfig:
    embedding: EmbeddingConfig = field(
        default_factory=lambda: EmbeddingConfig(width=1, positions="none", scaled=False, dropout=0.0)
    )
    pairs: int = 0  # that were seen

    width, layers, dropout = 1, 0, 0.0  # as others have them: the state of a token is its number

    def __post_init__(self) -> None:
        check_sizes(self, *["pairs"] * bool(self.pairs))


class Nothing:
    """Where a row stands: the last word is all that matters, and that comes with the next step."""

    def select(self, chosen: Tensor) -> Nothing:
        return self

    def detached(self) -> Nothing:
        return self

    def tensors(self) -> list[Tensor]:
        return []


class BigramBody(nn.Module):
    """A state for each token: its number.  The table has one number a word, how well it follows any other."""

    def __init__(self, config: BigramConfig):
        super().__init__()
        self.config = config
        self.embed = Embedding(config.embedding)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N, 1)
        return tokens.ids[:, None]

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        yield self(tokens)

    def read(self, tokens: Tokens, was: Nothing | None = None) -> tuple[Tensor, Nothing]:
        return self(tokens), Nothing()

    def state_of(self, tensors: Sequence[Tensor]) -> Nothing:
        return Nothing()


class BigramHead(NextHead):
    """P(w | v) = shares of the pairs that were seen + what is left of v, spread as the table says."""

    pairs: Tensor  # (P,) v * V + w, in order
    shares: Tensor  # (P,) (C(v w) - discount) / C(v)
    left: Tensor  # (V,)

    def __init__(self, config: BigramConfig):
        vocab = config.embedding.vocab
        super().__init__(config.width, vocab)
        self.register_buffer("pairs", torch.zeros(config.pairs, dtype=torch.int64))
        self.register_buffer("shares", torch.zeros(config.pairs))
        self.register_buffer("left", torch.ones(vocab))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:  # (N, 1), (V, 1) -> (N, V)
        """The logarithms of the probabilities."""
        first, vocab = states[:, 0], len(table)
        probabilities = self.left[first, None] * table.detach()[:, 0]
        begins, ends = (torch.searchsorted(self.pairs, word * vocab) for word in (first, first + 1))
        counts, rows = ends - begins, torch.arange(len(first), device=first.device)
        row = rows.repeat_interleave(counts)
        seen = torch.arange(len(row), device=first.device) + (ends - counts.cumsum(0))[row]
        places = self.pairs[seen] + ((rows - first) * vocab)[row]  # row * V + w
        probabilities.view(-1).index_add_(0, places, self.shares[seen])
        return probabilities.log()


@dataclass(frozen=True)
class BigramNames:
    role: Role = "write"
    out = None
    rules = Rules((("heads.write.{rest}", "heads.write.{rest}"),))

    def make(self, config: BigramConfig, outputs: Mapping[str, int]) -> BigramHead:
        return BigramHead(config)


PRESETS = {"bigram": BigramConfig()}
FAMILY = EncoderFamily(
    PRESETS["bigram"],
    OwnSettings(),
    Rules((("encoder.{rest}", "encoder.{rest}"),)),
    "",
    {"Bigram": (BigramNames(),)},
    kind=BigramBody,
)


def counted(blocks: Iterable[np.ndarray], vocab: int) -> Published:
    """The model of a text whose ids come in blocks, mapped from a file or not; pairs across blocks are pairs too."""
    pairs, counts = pair_counts(blocks, vocab)
    if not len(pairs):
        raise Problem("a text of one token or none has no pairs to count; give more text")
    first, second = np.divmod(pairs, vocab)
    totals, kinds = np.bincount(first, counts, vocab), np.bincount(first, minlength=vocab)  # kinds: of words after each
    discount = discount_of(counts)
    numbers = {
        "heads.write.pairs": pairs,
        "heads.write.shares": (counts - discount) / totals[first],
        "heads.write.left": np.divide(discount * kinds, totals, out=np.ones(vocab), where=totals > 0),
        "encoder.embed.tokens.weight": following(second, vocab)[:, None],
    }
    config = config_of(vocab, len(pairs))
    model = HeadedEncoder(BigramBody(config), {"write": BigramHead(config)})
    set_weights(model, {name: torch.from_numpy(values) for name, values in numbers.items()}, Path("the counts"))
    return published(model)


def following(second: np.ndarray, vocab: int) -> np.ndarray:  # (P,) -> (V,)
    """How probable a word is after a word never met: by how many words it followed, not how often."""
    kinds = np.bincount(second, minlength=vocab)  # different words that each follows
    seen = kinds[kinds > 0]
    discount = discount_of(seen)
    return (np.maximum(kinds - discount, 0) + discount * len(seen) / vocab) / len(second)


def discount_of(counts: np.ndarray) -> float:
    """What is taken from each count for what was never seen."""
    once, twice = (counts == 1).sum(), (counts == 2).sum()
    return once / (once + 2 * twice) if once else SHARE


def pair_counts(blocks: Iterable[np.ndarray], vocab: int) -> tuple[np.ndarray, np.ndarray]:  # (P,) each
    """The pairs of neighbours, v * V + w, in order, and how often each was seen."""
    pairs = counts = np.zeros(0, np.int64)
    for ids in pieces(blocks):
        if ids.min() < 0 or ids.max() >= vocab:
            raise Problem(
                f"ids from {ids.min()} to {ids.max()} in a vocabulary of {vocab}: another tokenizer made them"
            )
        new, seen = np.unique(ids[:-1] * vocab + ids[1:], return_counts=True)
        pairs, place = np.unique(np.concatenate([pairs, new]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, seen]), len(pairs)).astype(np.int64)
    return pairs, counts


def pieces(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Blocks in pieces of one size at most, each with the last id of the piece before."""
    last = np.zeros(0, np.int64)
    for block in blocks:
        for start in range(0, len(block), BLOCK):
            ids = np.concatenate([last, block[start : start + BLOCK]], dtype=np.int64)
            yield ids
            last = ids[-1:]


def config_of(vocab: int, pairs: int) -> BigramConfig:
    return BigramConfig(EmbeddingConfig(vocab, 1, "none", scaled=False, dropout=0.0), pairs)


def published(model: HeadedEncoder) -> Published:
    """The model with what its folder needs."""
    layout = FAMILY.layout("Bigram", FAMILY.rules("Bigram"), FAMILY.heads["Bigram"])
    whole = {name: t.dtype for name, t in weights_of(model).items() if not t.is_floating_point()}
    return Published(FAMILY, layout, {"model_type": "bigram"}, model.eval(), {}, {}, torch.float32, whole)
