"""The Transformer (Vaswani et al., 2017): an encoder reads the source, a decoder writes the target and looks back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from regard.attention.attention import AttentionConfig
from regard.errors import UsageProblem
from regard.layers.block import BlockConfig
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.sizes import check_equal, check_sizes
from regard.layers.stack import Stack, StackConfig, Written, one_each
from regard.models.encoder import Compared
from regard.rows import Tokens


@dataclass(frozen=True)
class TransformerConfig:
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    target_vocab: int | None = None  # None: one vocabulary and one table for source and target
    tied: bool = True  # the output's weights are the target's table
    encoder: StackConfig = field(default_factory=StackConfig)
    decoder: StackConfig = field(default_factory=lambda: StackConfig(causal=True, block=BlockConfig(cross=True)))

    def __post_init__(self) -> None:
        check_sizes(self, "target_vocab")


def transformer(layers=6, width=512, heads=8, inner=2048, *, vocab=8000, dropout=0.1, norm_first=False):
    """The paper's shape.  Its norms come last; norm_first=True trains without a delicate warm-up."""
    attention = AttentionConfig(heads=heads)
    block = BlockConfig(width, inner, norm_first=norm_first, dropout=dropout, attention=attention)
    return TransformerConfig(
        embedding=EmbeddingConfig(vocab, width, dropout=dropout),
        encoder=StackConfig(layers, final_norm=norm_first, block=block),
        decoder=StackConfig(layers, causal=True, final_norm=norm_first, block=replace(block, cross=True)),
    )


PRESETS = {
    "transformer-tiny": transformer(4, 128, 4, 256, dropout=0.3, norm_first=True),
    "transformer-small": transformer(4, 256, 4, 1024, dropout=0.3, norm_first=True),
    "transformer-base": transformer(),
    "transformer-big": transformer(6, 1024, 16, 4096, dropout=0.3),
}


class Transformer(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = checked(config)
        self.embed = Embedding(config.embedding)
        vocab = config.target_vocab or config.embedding.vocab
        self.embed_target = Embedding(replace(config.embedding, vocab=vocab)) if config.target_vocab else self.embed
        self.encoder, self.decoder = Stack(config.encoder), Stack(config.decoder)
        self.out = nn.Linear(config.embedding.width, vocab, bias=False)
        if config.tied:
            self.out.weight = self.embed_target.tokens.weight
        for name, weight in [*self.encoder.named_parameters(), *self.decoder.named_parameters()]:
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def encode(self, source: Tokens) -> Tensor:  # (M, W)
        return self.encoder.read(self.embed.read(source), source.rows)

    def forward(self, source: Tokens, target: Tokens) -> Tensor:
        """Read all of the target at once; the state that predicts the next token, for every token: (N, W)."""
        remembered = self.encode(source), source.rows
        return self.decoder.read(self.embed_target.read(target), target.rows, remembered)

    def logits(self, states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        return self.out(states)

    def compared(self, states: Tensor) -> Compared:
        """What the logits are made of."""
        return Compared(states, self.out.weight, None)

    def start(self, source: Tokens, beams: int = 1) -> Written:
        at = source.rows.lengths.new_zeros(len(source) * beams)
        return Written(self.decoder.begin(self.encode(source), source.rows), at)

    def step(self, tokens: Tensor, state: Written) -> tuple[Tensor, Written]:  # (B,) -> (B, V)
        rows = one_each(len(tokens), tokens.device)
        x = self.embed_target(tokens, state.at)
        states, traces = self.decoder(x, rows, was=state.traces, start=state.at)
        return self.logits(states), Written(traces, state.at + 1)


def checked(config: TransformerConfig) -> TransformerConfig:
    """Whether the parts fit together: asked of a whole config only, for settings are changed one after the other."""
    encoder, decoder = config.encoder, config.decoder
    widths = {"encoder.block.width": encoder.block.width, "decoder.block.width": decoder.block.width}
    check_equal({"embedding.width": config.embedding.width} | widths)
    if encoder.block.cross or not (decoder.block.cross and decoder.causal):
        raise UsageProblem(
            "encoder.block.cross must be false, decoder.block.cross and decoder.causal true: "
            "the decoder looks at the encoder, and not at what it has yet to write"
        )
    return config
