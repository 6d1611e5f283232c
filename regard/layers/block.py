"""One layer of a Transformer: self-attention, cross-attention where there is a source, feed-forward."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor, nn

from regard.attention.attention import Attention, AttentionConfig
from regard.attention.fixed import FixedRoom
from regard.attention.mask import Mask
from regard.attention.memory import Choice, Memory, Room
from regard.layers.feed_forward import FeedForward
from regard.layers.norm import NORMS, Norm
from regard.layers.residual import Residual
from regard.layers.sizes import check_shares, check_sizes
from regard.rows import Rows


@dataclass(frozen=True)
class BlockConfig:
    width: int = 512
    inner: int = 2048
    activation: Literal["relu", "gelu", "gelu-tanh", "swish", "tanh"] = "relu"
    gated: bool = False  # a second product, by which the activation is multiplied (Shazeer 2020)
    bias: bool = True  # in the feed-forward layers
    norm: Norm = "layer"
    norm_first: bool = False  # the paper's order is norm last
    cross: bool = False
    dropout: float = 0.1
    inner_dropout: float = 0.0
    epsilon: float = 1e-5  # of the norms
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    def __post_init__(self) -> None:
        check_sizes(self, "width", "inner")
        check_sizes(self.attention, "heads", "size")
        check_shares(self, "dropout", "inner_dropout", "epsilon")
        check_shares(self.attention, "dropout")


@dataclass(frozen=True, eq=False)
class Context:
    """What one pass through a stack may see; handed down unchanged."""

    rows: Rows
    mask: Mask | None = None
    source: tuple[Tensor, Rows] | None = None  # (M, W) what cross-attention looks at, when it is not remembered yet
    start: Tensor | int = 0  # the place of the first token, (N,) or one for all
    bias: Tensor | None = None  # (B or 1, H, Q, K) what every layer adds to its logits: T5's distances
    whole: Rows | None = None  # the rows with what is remembered of them; None: it is all here
    scored: bool = False  # the layer above adds the logits of this one to its own
    forgets: bool = False  # nobody reads on: traces are empty, and compiled code has no gradients of them to wait for


@dataclass(frozen=True, eq=False)
class Trace:
    """What a layer leaves behind for the next token.  It belongs to the layer, not the module, which may be shared."""

    own: Memory | Room | None = None
    source: Memory | Room | None = None  # a row may serve several of the own, as many for each, which lie side by side
    scores: Tensor | None = None  # (B, H, Q, K) the logits, for the layer above

    def select(self, own: Choice, source: Choice) -> Trace:
        return Trace(self.own and self.own.select(own), self.source and self.source.select(source))


class Block(nn.Module):
    def __init__(self, config: BlockConfig):
        super().__init__()

        def residual() -> Residual:
            norm = NORMS[config.norm](config.width, config.epsilon)
            return Residual(norm, config.dropout, norm_first=config.norm_first)

        self.attention, self.attention_residual = Attention(config.width, config.attention), residual()
        across = replace(config.attention, positions="none")  # places of two texts are at no distance from each other
        self.cross = Attention(config.width, across) if config.cross else None
        self.cross_residual = residual() if config.cross else None
        self.feed = FeedForward(
            config.width, config.inner, config.activation, config.inner_dropout, gated=config.gated, bias=config.bias
        )
        self.feed_residual = residual()

    def forward(self, x: Tensor, see: Context, was: Trace) -> tuple[Tensor, Trace]:  # (N, W) -> (N, W)
        y = self.attention_residual.before(x)
        q, new = self.attention.itself(y, see.rows, see.start)
        own = new if was.own is None else was.own.grown(new, see.whole)
        asked = y, own, see.rows, see.mask, see.start, see.bias, q
        x = self.attention_residual.after(x, self.attention(*asked))
        scores = self.attention.scores(*asked) if see.scored else None
        source = was.source
        if self.cross is not None and self.cross_residual is not None:
            source = self.remember_source(*see.source) if see.source else source
            y = self.cross_residual.before(x)
            x = self.cross_residual.after(x, self.cross(y, source, shared(see.rows, source)))
        x = self.feed_residual.after(x, self.feed(self.feed_residual.before(x)))
        return x, Trace(scores=scores) if see.forgets else Trace(own, source, scores)

    def remember_source(self, source: Tensor, rows: Rows) -> Memory | None:
        return self.cross.remember(source, rows) if self.cross is not None else None


def shared(rows: Rows, memory: Memory | Room | None) -> Rows:
    """The queries as rows of their memory, where several of one token each share one.  A fixed memory knows that."""
    count = len(rows) if memory is None or isinstance(memory, FixedRoom) else len(memory.rows)
    return rows if count == len(rows) else Rows.even(count, len(rows) // count, rows.offsets.device)
