"""The encoder that BERT and its relatives share, and the heads their files carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attention import AttentionConfig
from regard.attention.score import make_score
from regard.errors import UsageProblem
from regard.layers.block import Context
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.norm import in_precision
from regard.layers.pooling import POOLINGS
from regard.layers.stack import Stack, StackConfig, Stacked, Written, one_each
from regard.rows import Rows, Tokens

Role = Literal[  # of a head
    "pool", "masked", "next", "replaced", "write", "classify", "taught", "choose", "tag", "answer",
    "contrast", "transcribe",
]  # fmt: skip


@dataclass(frozen=True)
class EncoderConfig(Stacked):
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    stack: StackConfig = field(default_factory=StackConfig)


def check_by_parts(attention: AttentionConfig) -> None:
    """Whether attention can be computed of some pairs of tokens alone: by inner products, and without a bias."""
    path = "stack.block.attention"
    if attention.positions == "distance":
        raise UsageProblem(f"{path}.positions=distance is a bias of all pairs of tokens; give none or rotary here")
    if not make_score(attention.score, 1).fused:
        raise UsageProblem(
            f"{path}.score={attention.score} is no inner product; give scaled-dot, dot, general or cosine"
        )


class Encoder(nn.Module):
    """A state for each token: from both sides of it, or where the stack is causal from what came before."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        config.check_stack()
        self.config = config
        narrow, width = config.embedding.width, config.stack.block.width
        self.embed = Embedding(config.embedding)
        self.widen = nn.Linear(narrow, width) if narrow != width else None  # ALBERT, small ELECTRA
        self.stack = Stack(config.stack)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        return self.stack.read(self.embedded(tokens, types), tokens.rows)

    def embedded(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        x = self.embed.read(tokens, types)
        x = x if self.widen is None else self.widen(x)
        return in_precision(x) if self.training and not self.config.stack.block.norm_first else x

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        """The states of every layer, (N, W), what was embedded first; types are (N,), by default all the first."""
        x = self.embedded(tokens, types)
        yield x
        for number, (state, _) in enumerate(self.stack.each(x, Context(tokens.rows, self.stack.mask)), 1):
            yield self.stack.norm(state) if number == self.config.stack.layers else state

    def read(self, tokens: Tokens, was: Written | None = None) -> tuple[Tensor, Written]:  # (N, W)
        """Read on from where each row stood; where it stands now.  For a causal stack: no other can read by parts."""
        rows = tokens.rows
        at = rows.lengths.new_zeros(len(rows)) if was is None else was.at
        start = at[rows.row]
        x = self.embed(tokens.ids, rows.at + start)
        x = x if self.widen is None else self.widen(x)
        states, traces = self.stack(x, rows, was=was and was.traces, start=start)
        return states, Written(traces, at + rows.lengths)

    @property
    def norm(self) -> nn.Module:
        """The last norm, which the states come out of."""
        last: Any = self.stack.blocks[self.stack.order[-1]]
        return self.stack.norm if self.config.stack.final_norm else last.feed_residual.norm

    def parts(self) -> list[nn.Module]:
        """From the input up: what embeds, and each block of its own, the last with what norms its sum."""
        stack = self.stack
        below = [part for part in (self.embed, self.widen, stack.distances) if part is not None]
        *blocks, last = stack.blocks
        return [nn.ModuleList(below), *blocks, nn.ModuleList([last, stack.norm])]


class Head(nn.Module):
    """From states to scores: a hidden layer where the paper has one, then as many outputs as there are answers."""

    def __init__(
        self,
        width: int,
        activation: str | None = None,
        outputs: int | None = None,
        *,
        pool: str | None = None,
        dropout: float = 0.0,
        bias: bool = True,  # of the outputs
    ):
        super().__init__()
        self.pool = POOLINGS[pool] if pool else None  # None: scores for each token
        self.dense = nn.Linear(width, width) if activation else None
        self.activation = ACTIVATIONS[activation] if activation else None
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, outputs, bias) if outputs else None

    def forward(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (N or B, outputs)
        x = states if self.pool is None else self.pool(states, rows)
        if self.dense is not None and self.activation is not None:
            x = self.activation(self.dense(x))
        return x if self.out is None else self.out(self.dropout(x))


class Compared(NamedTuple):
    """Scores of words that are not made yet: states, each compared with every word of a table."""

    states: Tensor  # (N, W)
    table: Tensor  # (V, W)
    bias: Tensor | None  # (V,)

    def scores(self) -> Tensor:  # (N, V)
        return F.linear(*self)


class WordHead(nn.Module):
    """Masked language modelling: a layer, its norm, and a comparison with every word of the embedding's table."""

    def __init__(self, config: EncoderConfig, activation: str | None = None):
        super().__init__()
        embedding, block = config.embedding, config.stack.block
        self.dense = nn.Linear(block.width, embedding.width)
        self.activation = ACTIVATIONS[activation or block.activation]
        self.norm = nn.LayerNorm(embedding.width, block.epsilon)
        self.bias = nn.Parameter(torch.zeros(embedding.vocab))

    def forward(self, states: Tensor, table: Tensor) -> Tensor:  # (N, W), (V, narrow) -> (N, V)
        return self.compared(states, table).scores()

    def compared(self, states: Tensor, table: Tensor) -> Compared:
        return Compared(self.norm(self.activation(self.dense(states))), table, self.bias)


class NextHead(nn.Module):
    """Language modelling: a comparison with every word, of the embedding's table or of one of its own."""

    def __init__(self, width: int, vocab: int, *, tied: bool = True, bias: bool = False):
        super().__init__()
        self.out = None if tied else nn.Linear(width, vocab, bias=bias)
        self.bias = nn.Parameter(torch.zeros(vocab)) if tied and bias else None

    def forward(self, states: Tensor, table: Tensor) -> Tensor:  # (N, W), (V, W) -> (N, V)
        return self.compared(states, table).scores() if self.out is None else self.out(states)

    def compared(self, states: Tensor, table: Tensor) -> Compared:
        own = self.out
        return Compared(states, table, self.bias) if own is None else Compared(states, own.weight, own.bias)


def begin(module: nn.Module) -> None:
    """Numbers to begin pretraining with: BERT's; and GPT-2's, where what layers add is never normed."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=0.02, a=-0.04, b=0.04)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
    for part in module.modules():
        if isinstance(part, Encoder) and part.config.stack.causal and part.config.stack.block.norm_first:
            soften(part)


@torch.no_grad()
def soften(encoder: Encoder) -> None:
    """What the layers add begins the smaller the more of them there are."""
    blocks: Any = encoder.stack.blocks
    lines = (line for block in blocks for line in (block.attention.out, block.feed.down))
    for line in (line for line in lines if isinstance(line, nn.Linear)):  # attention may have no projections
        line.weight.mul_((2 * encoder.config.layers) ** -0.5)


class HeadedEncoder(nn.Module):
    """An encoder with the heads its folder carries, by what they are for."""

    def __init__(self, encoder: nn.Module, heads: Mapping[Role, nn.Module]):
        super().__init__()
        self.encoder: Any = encoder  # an Encoder, or what reads as one does
        self.heads = nn.ModuleDict({str(role): head for role, head in heads.items()})

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:
        return self.encoder(tokens, types)

    def parts(self) -> list[nn.Module]:
        """From the input up, for a training that treats them differently: those of the encoder, then the heads.  An
        encoder that does not tell its parts is one."""
        below = self.encoder.parts() if hasattr(self.encoder, "parts") else [self.encoder]
        return [*below, self.heads]

    @property
    def finetuned_by(self) -> str:
        """How its kind is fine-tuned if nothing is said: plain, or ulmfit where the encoder says so."""
        return getattr(self.encoder, "finetuned_by", "plain")

    def scores(self, role: Role, states: Tensor, rows: Rows) -> Tensor:
        """What a head makes of states: a row of scores for each of them, or for each text."""
        head = self.heads[role]
        if isinstance(head, WordHead | NextHead):
            return head(states, self.encoder.embed.tokens.weight)
        return head(states, rows)

    def compared(self, role: Role, states: Tensor) -> Compared | None:
        """What a head that tells words compares with what; None if it has a way of its own, or there is none."""
        head: Any = dict(self.heads.items()).get(role)
        known = type(head) in (WordHead, NextHead)
        return head.compared(states, self.encoder.embed.tokens.weight) if known else None

    def read(self, tokens: Tokens, was: Any = None) -> tuple[Tensor, Any]:  # (N, W)
        """Read on from where each row stood: the states that tell what comes next, and where each row stands now."""
        return self.encoder.read(tokens, was)

    def logits(self, states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        """What comes next, from the states that `read` gives."""
        return self.heads["write"](states, self.encoder.embed.tokens.weight)

    def start(self, source: Tokens, beams: int = 1) -> Any:
        """Where to write on from, once the source is read."""
        state, rows = self.read(source)[1], torch.arange(len(source), device=source.ids.device)
        return state if beams == 1 else state.select(rows.repeat_interleave(beams))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:  # (B,) -> (B, V)
        states, state = self.read(Tokens(tokens, one_each(len(tokens), tokens.device)), state)
        return self.logits(states), state
