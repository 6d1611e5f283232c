"""ELMo (Peters et al., 2018): two language models, forwards and backwards, over words read by their characters; a task
learns a mix of their layers.  The paper samples its softmax, and clips cells; here the softmax is whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.checkpoints.settings import OwnSettings
from regard.layers.characters import Characters, CharactersConfig
from regard.layers.recurrent import WayConfig
from regard.layers.sizes import check_shares, check_sizes
from regard.models.encoder import NextHead, begin
from regard.models.published import EncoderFamily
from regard.models.recurrent import RecurrentEncoder
from regard.models.recurrent_heads import BODY, HEADS, OwnHead, write_head
from regard.rows import Tokens


@dataclass(frozen=True)
class ElmoConfig:
    embedding: CharactersConfig = field(default_factory=CharactersConfig)
    recurrent: WayConfig = field(default_factory=WayConfig)
    pool: Literal["last", "concat"] = "concat"  # what a classifier reads of a text
    dropout: float = 0.1  # on what comes out
    told: int | None = None  # words that are told, the most frequent ones, the last for all others; None: all
    mixed: bool = False  # heads read a mix of all layers, learned with them; else the last

    way = "both"
    tied = False  # words are told by a table of their own, and read by none
    word_dropout = 0.0

    def __post_init__(self) -> None:
        check_shares(self, "dropout")
        check_sizes(self, "told")

    @property
    def width(self) -> int:
        return 2 * self.recurrent.last

    @property
    def layers(self) -> int:
        return self.recurrent.layers


class LearnedMix(nn.Module):
    """gamma * sum_j s_j h_j, where s = softmax(preferences)."""

    def __init__(self, layers: int):
        super().__init__()
        self.preferences, self.scale = nn.Parameter(torch.zeros(layers)), nn.Parameter(torch.ones(1))

    def forward(self, layers: Iterable[Tensor]) -> Tensor:  # (N, W) of each layer -> (N, W)
        shares = self.preferences.softmax(0)
        return self.scale * sum(share * layer for share, layer in zip(shares, layers, strict=True))


class Elmo(RecurrentEncoder):
    def __init__(self, config: ElmoConfig):
        super().__init__(config, Characters(config.embedding))
        self.mix = LearnedMix(config.layers + 1) if config.mixed else None

    def parts(self) -> list[nn.Module]:
        return super().parts() + ([] if self.mix is None else [self.mix])

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        return self.top(tokens) if self.mix is None else self.mix(self.layers(tokens))


def told_head(config: ElmoConfig, vocab: int) -> NextHead:
    return write_head(config, min(config.told or vocab, vocab))


def begin_elmo(model: nn.Module) -> None:
    """Numbers to begin with, as the authors' code has them: where words were told by smaller ones, they were long told
    by how frequent they are alone."""
    begin(model)
    for part in model.modules():
        if isinstance(part, Characters):
            part.begin()
        if isinstance(part, NextHead) and part.out is not None:
            nn.init.normal_(part.out.weight, std=part.out.in_features**-0.5)


def elmo(width=512, cells=4096, filters=(32, 32, 64, 128, 256, 512, 1024), vocab=50_000, **settings: Any) -> ElmoConfig:
    """Two layers, the second added to the first, each projected to the width."""
    embedding = CharactersConfig(vocab, width, filters=filters)
    return ElmoConfig(embedding, WayConfig("lstm", width, width, 2, cells, residual=True, dropout=0.1), **settings)


PRESETS = {
    "elmo": elmo(),  # the original, 93.6 million and the words' table
    "elmo-medium": elmo(256, 2048, (32, 32, 64, 128, 256, 512, 1024)),
    "elmo-small": elmo(256, 512, (32, 32, 64, 128, 256)),
    "elmo-tiny": elmo(16, 24, (4, 6, 8)),
}

FAMILY = EncoderFamily(
    elmo(),
    OwnSettings(),
    BODY,
    "",
    {
        **{f"Elmo{name}": heads for name, heads in HEADS.items()},
        "ElmoLanguageModel": (OwnHead("write", told_head, sized=False),),
    },
    kind=Elmo,
    begin=begin_elmo,
)
