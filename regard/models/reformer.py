"""Reformer (Kitaev et al., 2020): tokens look at those beside them, and at those that hashing finds alike; layers can
be run backwards, so that memory does not grow with their number; places are told by two short tables.

Letters: B rows, N tokens, W width of a stream, of which there are two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention.attention import AttentionConfig
from regard.attention.route_hashed import Hashed, Local
from regard.attention.route_sorted import Reach
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.errors import UsageProblem
from regard.layers.block import Block, BlockConfig
from regard.layers.embedding import Embedding, EmbeddingConfig
from regard.layers.reversible import ReversibleStack
from regard.layers.sizes import check_sizes
from regard.layers.stack import StackConfig
from regard.models.bert import ACTIVATIONS
from regard.models.encoder import Encoder, EncoderConfig, Head, NextHead, Role, check_by_parts
from regard.models.published import EncoderFamily, HeadNames
from regard.rows import Tokens

C = TypeVar("C")
Kind = Literal["local", "lsh"]


@dataclass(frozen=True)
class ChunkConfig:
    size: int = 64  # tokens of a chunk
    before: int = 1  # chunks that it looks at beside itself
    after: int = 0
    dropout: float = 0.0  # of the weights

    def __post_init__(self) -> None:
        check_sizes(self, "size", *(name for name in ("before", "after") if getattr(self, name)))


@dataclass(frozen=True)
class ReformerConfig(EncoderConfig):
    kinds: tuple[Kind, ...] = ("local", "lsh", "local", "lsh", "local", "lsh")  # of the layers
    local: ChunkConfig = field(default_factory=ChunkConfig)
    lsh: ChunkConfig = field(default_factory=ChunkConfig)
    rounds: int = 1  # of hashing
    buckets: tuple[int, ...] = ()  # their number, or its factors; none: by the length of a row
    seed: int | None = None  # of the directions that hashing is by; None: others in every step of training
    axial: bool = True  # places by two tables, one for the row and one for the column of a grid
    axes: tuple[int, ...] = (64, 64)  # the grid
    axis_widths: tuple[int, ...] = (64, 192)

    def __post_init__(self) -> None:
        check_sizes(self, "rounds")
        if any(number < 2 or number % 2 for number in self.buckets):
            raise UsageProblem(f"buckets={list(self.buckets)}: directions come in pairs; give even numbers")

    @property
    def width(self) -> int:
        """Of a state: both streams side by side."""
        return 2 * self.stack.block.width

    def check(self) -> None:
        """What must agree, once all of it is set."""
        if len(self.kinds) != self.stack.layers:
            raise UsageProblem(f"kinds are of {len(self.kinds)} layers, stack.layers={self.stack.layers}: change both")
        if self.axial and (len(self.axes) != 2 or len(self.axis_widths) != 2 or min(self.axes + self.axis_widths) < 1):
            raise UsageProblem(f"axes={list(self.axes)}, axis_widths={list(self.axis_widths)}: give two of each")
        if self.axial and sum(self.axis_widths) != self.embedding.width:
            raise UsageProblem(
                f"axis_widths={list(self.axis_widths)} do not add up to the width, {self.embedding.width}"
            )
        if self.stack.distinct not in (None, self.stack.layers):
            raise UsageProblem("the layers of a Reformer are each of their own kind: leave stack.distinct alone")
        check_by_parts(self.stack.block.attention)
        if self.stack.causal and (self.local.after or self.lsh.after):
            raise UsageProblem("a causal Reformer looks at no chunk behind its own: set local.after=0 and lsh.after=0")

    def reach(self, kind: Kind) -> Reach:
        sizes = {each: getattr(self, each).size for each in set(self.kinds)}
        own = getattr(self, kind)
        return Reach(own.size, own.before, own.after, min(sizes.values()), math.lcm(*sizes.values()))


class AxialEmbedding(Embedding):
    """The place of a token is a row and a column of a grid, and each has a vector: of a million, two thousand."""

    def __init__(self, config: ReformerConfig):
        super().__init__(replace(config.embedding, positions="none"))
        (rows, columns), (first, second) = config.axes, config.axis_widths
        self.axes = nn.ParameterList([torch.randn(rows, 1, first), torch.randn(1, columns, second)])

    @property
    def places(self) -> int:
        return min(len(self.axes[0]) * self.axes[1].shape[1], self.config.longest)

    def forward(self, ids: Tensor, at: Tensor, types: Tensor | None = None) -> Tensor:  # (N,) each -> (N, W)
        rows, columns = self.axes[0][:, 0], self.axes[1][0]
        places = torch.cat([rows[at // len(columns)], columns[at % len(columns)]], -1)
        return super().forward(ids, at, types) + places


@dataclass(frozen=True, eq=False)
class Begun:
    """What has been read of each row.  Buckets change as a text grows, so it is read anew."""

    tokens: Tokens

    def select(self, chosen: Tensor) -> Begun:
        places, rows = self.tokens.rows.tokens_of(chosen)
        return Begun(Tokens(self.tokens.ids[places], rows))

    def grown(self, more: Tokens) -> Begun:
        a, b = self.tokens.rows, more.rows
        order = torch.cat([a.row, b.row]).argsort(stable=True)
        return Begun(Tokens(torch.cat([self.tokens.ids, more.ids])[order], a.grown(b)))


class ReformerEncoder(Encoder):
    def __init__(self, config: ReformerConfig):
        config.check()
        super().__init__(config)
        learned = replace(config.embedding, positions="learned")
        self.embed = AxialEmbedding(config) if config.axial else Embedding(learned)
        self.stack = ReversibleStack(config.stack)
        for block, kind in zip(self.stack.blocks, config.kinds, strict=True):
            look_by(cast(Block, block), kind, config)
        self.dropout = nn.Dropout(config.dropout)

    def embedded(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, 2 W)
        """Both streams begin with the same."""
        x = super().embedded(tokens, types)
        return torch.cat([x, x], -1)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, 2 W)
        return self.dropout(self.stack(self.embedded(tokens), tokens.rows)[0])

    def read(self, tokens: Tokens, was: Begun | None = None) -> tuple[Tensor, Begun]:  # type: ignore[override]
        if was is None:
            return self(tokens), Begun(tokens)
        begun = was.grown(tokens)
        rows, whole = tokens.rows, begun.tokens.rows
        places = (whole.first + whole.lengths - rows.lengths)[rows.row] + rows.at
        return self(begun.tokens)[places], begun


def look_by(block: Block, kind: Kind, config: ReformerConfig) -> None:
    """Local layers have keys of their own; those that hash have one projection for queries and keys."""
    attention, reach = block.attention, config.reach(kind)
    attention.dropout = getattr(config, kind).dropout
    if kind == "local":
        attention.route = Local(reach)
        return
    shared = attention.q
    del attention.q, attention.k
    attention.shared = attention.q = attention.k = shared  # known in files by the first of its names
    attention.route = Hashed(reach, config.rounds, config.buckets, seed=config.seed, longest=config.embedding.longest)


def reformer(layers=6, width=256, heads=2, inner=512, *, size=64, vocab=258, axes=(128, 512), dropout=0.05):
    """The shape of the paper's models of text: every second layer hashes."""
    attention = AttentionConfig(heads, size, bias=False)
    block = BlockConfig(
        width,
        inner,
        "relu",
        norm_first=True,
        dropout=dropout,
        inner_dropout=dropout,
        epsilon=1e-12,
        attention=attention,
    )
    places = math.prod(axes)
    embedding = EmbeddingConfig(vocab, width, "none", places, scaled=False, dropout=dropout)
    stack = StackConfig(layers, causal=True, final_norm=True, block=block)
    kinds: tuple[Kind, ...] = tuple(("local", "lsh")[number % 2] for number in range(layers))
    return ReformerConfig(embedding, stack, kinds, axes=axes, axis_widths=(width // 4, width - width // 4))


ENWIK8: tuple[Kind, ...] = ("local", "local", "lsh", "local") * 3  # of the published model
PRESETS = {
    "reformer-small": reformer(vocab=32000, axes=(64, 64)),
    "reformer-enwik8": replace(
        reformer(12, 1024, 8, 4096, size=128, axes=(128, 512), dropout=0.2), kinds=ENWIK8, rounds=4, buckets=(512,),
        local=ChunkConfig(128), lsh=ChunkConfig(256),
    ),
    "reformer-million": replace(reformer(6, 256, 4, 1024, axes=(1024, 1024), dropout=0.0), rounds=2),
}  # fmt: skip


# The form in which it is published

SILENT = replace(  # what is meant by a config.json that says nothing
    reformer(6, 256, 12, 512, vocab=320, axes=(64, 64)), local=ChunkConfig(dropout=0.05),
    stack=replace(reformer(6, 256, 12, 512).stack, causal=False),
)  # fmt: skip
LAYER = "encoder.layers.{i}"
TABLES = ("mask_value_float16", "mask_value_float32", "self_mask_value_float16", "self_mask_value_float32")
BODY = Rules(
    (
        ("encoder.embed.tokens", "embeddings.word_embeddings"),
        ("encoder.embed.axes.{i}", "embeddings.position_embeddings.weights.{i}"),
        ("encoder.embed.positions", "embeddings.position_embeddings.embedding"),
        ("encoder.stack.blocks.{i}.attention_residual.norm", f"{LAYER}.attention.layer_norm"),
        ("encoder.stack.blocks.{i}.attention.shared", f"{LAYER}.attention.self_attention.query_key"),
        ("encoder.stack.blocks.{i}.attention.q", f"{LAYER}.attention.self_attention.query"),
        ("encoder.stack.blocks.{i}.attention.k", f"{LAYER}.attention.self_attention.key"),
        ("encoder.stack.blocks.{i}.attention.v", f"{LAYER}.attention.self_attention.value"),
        ("encoder.stack.blocks.{i}.attention.out", f"{LAYER}.attention.output.dense"),
        ("encoder.stack.blocks.{i}.feed_residual.norm", f"{LAYER}.feed_forward.layer_norm"),
        ("encoder.stack.blocks.{i}.feed.up", f"{LAYER}.feed_forward.dense.dense"),
        ("encoder.stack.blocks.{i}.feed.down", f"{LAYER}.feed_forward.output.dense"),
        ("encoder.stack.norm", "encoder.layer_norm"),
    ),
    ignored=tuple(f"{LAYER}.attention.self_attention.{name}" for name in TABLES),  # in older files
)


@dataclass(frozen=True)
class ReformerSettings(Settings):
    """Their number of buckets is a number, a list of its factors, or nothing."""

    def load(self, config: C, theirs: Mapping[str, Any]) -> C:
        return super().load(config, listed(theirs))

    def save(self, config: Any, theirs: Mapping[str, Any] = {}) -> dict[str, Any]:
        said = super().save(config, listed(theirs))
        same = list(said[BUCKETS]) == (listed(theirs).get(BUCKETS) or [])
        kept = {BUCKETS: theirs[BUCKETS]} if BUCKETS in theirs else {}
        return {**without(said), **(kept if same else {BUCKETS: list(config.buckets) or None})}


BUCKETS = "num_buckets"


def listed(theirs: Mapping[str, Any]) -> dict[str, Any]:
    found = theirs.get(BUCKETS)
    return {**theirs, **({BUCKETS: [found]} if isinstance(found, int) else {})}


def without(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key != BUCKETS}


SETTINGS = ReformerSettings(
    (
        ("kinds", "attn_layers"),
        ("stack.layers", "num_hidden_layers"),
        ("stack.causal", "is_decoder"),
        ("stack.block.width", "hidden_size"),
        ("stack.block.inner", "feed_forward_size"),
        ("stack.block.activation", "hidden_act"),
        ("stack.block.dropout", "hidden_dropout_prob"),
        ("stack.block.inner_dropout", "hidden_dropout_prob"),
        ("stack.block.epsilon", "layer_norm_eps"),
        ("stack.block.attention.heads", "num_attention_heads"),
        ("stack.block.attention.size", "attention_head_size"),
        ("embedding.vocab", "vocab_size"),
        ("embedding.width", "hidden_size"),
        ("embedding.longest", "max_position_embeddings"),
        ("embedding.dropout", "hidden_dropout_prob"),
        ("local.size", "local_attn_chunk_length"),
        ("local.before", "local_num_chunks_before"),
        ("local.after", "local_num_chunks_after"),
        ("local.dropout", "local_attention_probs_dropout_prob"),
        ("lsh.size", "lsh_attn_chunk_length"),
        ("lsh.before", "lsh_num_chunks_before"),
        ("lsh.after", "lsh_num_chunks_after"),
        ("lsh.dropout", "lsh_attention_probs_dropout_prob"),
        ("rounds", "num_hashes"),
        ("buckets", BUCKETS),
        ("seed", "hash_seed"),
        ("axial", "axial_pos_embds"),
        ("axes", "axial_pos_shape"),
        ("axis_widths", "axial_pos_embds_dim"),
    ),
    ACTIVATIONS,
)


@dataclass(frozen=True)
class WordNames:
    """The head that scores every word.  The newest of their versions leave its bias out of the sum, by mistake."""

    role: Role
    out = None

    @property
    def rules(self) -> Rules:
        ours = f"heads.{self.role}.out"
        rows = (f"{ours}.weight", "lm_head.decoder.weight"), (f"{ours}.bias", "lm_head.bias")
        return Rules(rows, {"lm_head.decoder.bias": "lm_head.bias"})

    def make(self, config: ReformerConfig, outputs: Mapping[str, int]) -> NextHead:
        if config.stack.causal != (self.role == "write"):
            raise UsageProblem(
                f"stack.causal={config.stack.causal}: causal ones tell what comes next, others what is hidden"
            )
        return NextHead(config.width, config.embedding.vocab, tied=False, bias=True)


@dataclass(frozen=True)
class TokenNames(HeadNames):
    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> Head:
        check_both_ways(config)
        return super().make(config, outputs)


@dataclass(frozen=True)
class LabelNames(HeadNames):
    """A hidden layer as wide as one stream."""

    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> Head:
        check_both_ways(config)
        head, width = super().make(config, outputs), config.stack.block.width
        head.dense, head.out = nn.Linear(2 * width, width), nn.Linear(width, outputs.get(str(self.out), 1))
        return head


def check_both_ways(config: EncoderConfig) -> None:
    if config.stack.causal:
        raise UsageProblem(
            "a causal Reformer tells what comes next, and has no other heads: its first token, which tasks ask, has "
            "read nothing; give one that was pretrained on hidden words, with stack.causal=false"
        )


def begin(module: nn.Module) -> None:
    """Numbers to begin with: those of the reference library."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, AxialEmbedding):
            for axis in part.axes:
                nn.init.normal_(axis)


FAMILY = EncoderFamily(
    SILENT,
    SETTINGS,
    BODY,
    "reformer.",
    {
        "ReformerModel": (),
        "ReformerModelWithLMHead": (WordNames("write"),),
        "ReformerForMaskedLM": (WordNames("masked"),),
        "ReformerForSequenceClassification": (
            LabelNames("classify", "classifier.out_proj", "classifier.dense", "tanh", pool="first"),
        ),
        "ReformerForTokenClassification": (TokenNames("tag", "classifier"),),  # which the reference library lacks
        "ReformerForQuestionAnswering": (TokenNames("answer", "qa_outputs"),),
    },
    kind=ReformerEncoder,
    begin=begin,
    only={"tie_word_embeddings": False},
)
