"""LSTM language models, and those with other cells; AWD-LSTM (Merity et al., 2018).  Classifiers made of them are those
of semi-supervised sequence learning (Dai and Le, 2015) or of ULMFiT (Howard and Ruder, 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from regard.checkpoints.settings import OwnSettings
from regard.layers.embedding import EmbeddingConfig
from regard.layers.recurrent import WayConfig
from regard.layers.sizes import check_equal, check_shares
from regard.models.encoder import begin
from regard.models.published import EncoderFamily
from regard.models.recurrent import WAYS, RecurrentEncoder, Ways
from regard.models.recurrent_heads import BODY, HEADS


@dataclass(frozen=True)
class LstmConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    recurrent: WayConfig = field(default_factory=WayConfig)
    way: Ways = "forward"
    tied: bool = True  # the output's weights are the embedding's
    pool: Literal["last", "concat"] = "last"  # what a classifier reads of a text: Dai and Le's, or ULMFiT's
    dropout: float = 0.1  # on what comes out
    word_dropout: float = 0.0  # of whole words, wherever they stand

    def __post_init__(self) -> None:
        check_shares(self, "dropout", "word_dropout")

    @property
    def width(self) -> int:
        """Of the last layer; two ways stand side by side."""
        return self.recurrent.last * len(WAYS[self.way])

    @property
    def layers(self) -> int:
        return self.recurrent.layers


def encoder_of(config: LstmConfig) -> RecurrentEncoder:
    if config.tied:
        check_equal({"embedding.width": config.embedding.width, "recurrent.last": config.recurrent.last})
    return RecurrentEncoder(config)


def begin_lstm(model: nn.Module) -> None:
    """Numbers to begin with, as the papers have them: words evenly from -0.1 to 0.1, cells as torch has them."""
    begin(model)
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            nn.init.uniform_(part.weight, -0.1, 0.1)


def lstm(width=650, layers=2, *, cell="lstm", way="forward", vocab=10_000, dropout=0.5) -> LstmConfig:
    """The medium size of Zaremba et al. 2014; words are as wide as layers."""
    embedding = EmbeddingConfig(vocab, width, "none", scaled=False, dropout=dropout)
    return LstmConfig(embedding, WayConfig(cell, width, width, layers, dropout=dropout), way, dropout=dropout)


def awd_lstm(width=400, inner=1150, layers=3, vocab=10_000) -> LstmConfig:
    """As published for the Penn Treebank; a classifier on it is ULMFiT's."""
    embedding = EmbeddingConfig(vocab, width, "none", scaled=False, dropout=0.4)
    cells = WayConfig("lstm", inner, width, layers, dropout=0.25, weight_dropout=0.5)
    return LstmConfig(embedding, cells, pool="concat", dropout=0.4, word_dropout=0.1)


PRESETS = {
    "lstm": lstm(),
    "lstm-large": lstm(1500, dropout=0.65),  # Zaremba's
    "lstm-small": lstm(256, dropout=0.2),
    "lstm-tiny": lstm(32, dropout=0.1),
    "lstm-backward": lstm(way="backward"),
    "bilstm": lstm(way="both"),
    "bilstm-tiny": lstm(32, way="both", dropout=0.1),
    "gru": lstm(cell="gru"),
    "rnn-lm": lstm(cell="vanilla"),
    "awd-lstm": awd_lstm(),
    "awd-lstm-tiny": awd_lstm(24, 40),
}

FAMILY = EncoderFamily(
    lstm(),
    OwnSettings(),
    BODY,
    "",
    {f"Lstm{name}": heads for name, heads in HEADS.items()},
    kind=encoder_of,
    begin=begin_lstm,
)
