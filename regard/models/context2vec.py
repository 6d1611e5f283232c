"""context2vec (Melamud et al., 2016): a word is told from the forward state of what is left of it and the backward
state of what is right of it, through two layers.  The paper samples words that are wrong; here the softmax is whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.checkpoints.settings import OwnSettings
from regard.layers.embedding import EmbeddingConfig
from regard.layers.recurrent import WayConfig
from regard.layers.sizes import check_shares
from regard.models.encoder import NextHead
from regard.models.lstm import begin_lstm
from regard.models.published import EncoderFamily
from regard.models.recurrent import RecurrentEncoder
from regard.models.recurrent_heads import BODY, OwnHead, token_head
from regard.rows import Tokens


@dataclass(frozen=True)
class Context2vecConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    recurrent: WayConfig = field(default_factory=WayConfig)
    dropout: float = 0.0

    way = "both"
    word_dropout = 0.0

    def __post_init__(self) -> None:
        check_shares(self, "dropout")

    @property
    def width(self) -> int:
        """Of a context; so wide are both ways side by side."""
        return 2 * self.recurrent.last

    @property
    def layers(self) -> int:
        return self.recurrent.layers + 1


class Context2vec(nn.Module):
    """For each token the context it stands in, which has not read it."""

    def __init__(self, config: Context2vecConfig):
        super().__init__()
        self.config, width = config, config.width
        self.around = RecurrentEncoder(config)
        self.join = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    @property
    def embed(self) -> nn.Module:
        return self.around.embed

    def parts(self) -> list[nn.Module]:
        """From the input up."""
        return [*self.around.parts(), self.join]

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        return deque(self.layers(tokens), maxlen=1).pop()

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        """What was embedded, the states of both ways, which have read the token too, and its context."""
        for states in self.around.layers(tokens):
            yield states
        forward, backward = states.chunk(2, -1)
        yield self.join(torch.cat(besides(tokens, forward, backward), -1))


def besides(tokens: Tokens, forward: Tensor, backward: Tensor) -> tuple[Tensor, Tensor]:  # (N, W) each
    """For each token, what had been read before it, and behind it; nothing at the ends of a row."""
    at, lengths = tokens.rows.at, tokens.rows.lengths[tokens.rows.row]
    left = forward.roll(1, 0) * (at > 0)[:, None]
    right = backward.roll(-1, 0) * (at < lengths - 1)[:, None]
    return left, right


def word_head(config: Context2vecConfig, vocab: int) -> NextHead:
    return NextHead(config.width, vocab, tied=False, bias=True)


def context2vec(width=300, cells=600, vocab=50_000, *, dropout=0.0) -> Context2vecConfig:
    embedding = EmbeddingConfig(vocab, width, "none", scaled=False, dropout=dropout)
    return Context2vecConfig(embedding, WayConfig("lstm", cells, cells, 1), dropout=dropout)


PRESETS = {"context2vec": context2vec(), "context2vec-tiny": context2vec(16, 16)}

FAMILY = EncoderFamily(
    context2vec(),
    OwnSettings(),
    BODY,
    "",
    {
        "Context2vecModel": (),
        "Context2vecForWords": (OwnHead("masked", word_head, sized=False),),
        "Context2vecTagger": (OwnHead("tag", token_head),),
    },
    kind=Context2vec,
    begin=begin_lstm,
)
