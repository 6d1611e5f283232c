"""CoVe (McCann et al., 2017): the encoder of a recurrent translator as one of text; a word's vector and its state side
by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.checkpoints.settings import OwnSettings
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.recurrent import Recurrent, RecurrentConfig
from regard.layers.sizes import check_equal
from regard.models.published import EncoderFamily
from regard.models.recurrent_heads import BODY, HEADS
from regard.rows import Tokens


@dataclass(frozen=True)
class CoveConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    encoder: RecurrentConfig = field(default_factory=lambda: RecurrentConfig(two_way=True))
    dropout: float = 0.1

    layers = 1  # beside what was embedded: of the encoder's layers the last is what the translator looks at
    way = "forward"  # a text ends at its last token
    pool = "concat"

    @property
    def width(self) -> int:
        return self.embedding.width + self.encoder.width


class Cove(nn.Module):
    def __init__(self, config: CoveConfig):
        super().__init__()
        check_equal({"embedding.width": config.embedding.width, "encoder.width": config.encoder.width})
        self.config = config
        self.embed, self.encoder = Embedding(config.embedding), Recurrent(config.encoder)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        *_, states = self.layers(tokens)
        return states

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        """The vector of a word twice; and once, with its state."""
        x = self.embed.read(tokens)
        yield torch.cat([x, x], -1)
        yield torch.cat([x, self.encoder(x, tokens.rows)[0]], -1)


PRESETS: dict[str, CoveConfig] = {}  # it is made of a translator that has learned

FAMILY = EncoderFamily(
    CoveConfig(),
    OwnSettings(),
    BODY,
    "",
    {f"Cove{name}": HEADS[name] for name in ("Model", "Classifier", "Chooser", "Tagger")},
    kind=Cove,
)
