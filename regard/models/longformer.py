"""Longformer (Beltagy et al., 2020): RoBERTa's encoder, whose tokens look at those around them; a task chooses tokens
that look at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import torch.nn.functional as F
from torch import Tensor

from regard.attention.route_window import Window, chosen
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.errors import UsageProblem
from regard.layers.block import Block, Context
from regard.models.bert import BODY as BERT_BODY
from regard.models.bert import SETTINGS as BERT_SETTINGS
from regard.models.bert import bert, pooled
from regard.models.encoder import Encoder, EncoderConfig, check_by_parts
from regard.models.published import ONLY, EncoderFamily, HeadNames, Heads, Layout, WordHeadNames
from regard.models.roberta import FIRST
from regard.rows import Tokens

C = TypeVar("C")
WINDOW = "attention_window"


@dataclass(frozen=True)
class LongformerConfig(EncoderConfig):
    windows: tuple[int, ...] = (512,)  # how many tokens around it each looks at; one for all layers, or one for each
    separator: int = 2  # the token that ends a question

    def __post_init__(self) -> None:
        if len(self.windows) not in (1, self.stack.layers):
            raise UsageProblem(f"{len(self.windows)} windows for {self.stack.layers} layers: give one, or one for each")
        if any(size < 2 or size % 2 for size in self.windows):
            raise UsageProblem(f"windows={list(self.windows)}: give even numbers of tokens, as many on either side")
        if self.stack.causal or self.stack.residual_scores or self.stack.buckets:
            raise UsageProblem(
                "Longformer's stack is not causal, and has no bias of pairs of tokens: leave stack.causal, "
                "stack.residual_scores and stack.buckets alone"
            )
        check_by_parts(self.stack.block.attention)
        if len(set(self.windows)) == 1:  # the same one for each layer is one for all: configs that are equal
            object.__setattr__(self, "windows", self.windows[:1])


Choose = Callable[[Tokens, int], Tensor]  # tokens and the separator -> (N,) bool


def first(tokens: Tokens, separator: int) -> Tensor:
    return tokens.rows.at == 0


def question(tokens: Tokens, separator: int) -> Tensor:
    """What stands before the first separator."""
    return before(tokens, separator) == 0


def answers(tokens: Tokens, separator: int) -> Tensor:
    """What stands behind the two separators that end the question."""
    where = before(tokens, separator)
    return (where > 2) | ((where == 2) & (tokens.ids != separator))


def before(tokens: Tokens, separator: int) -> Tensor:  # (N,)
    """How many separators of its row stand before each token, itself among them."""
    total = F.pad((tokens.ids == separator).long().cumsum(0), (1, 0))
    return total[1:] - total[tokens.rows.first][tokens.rows.row]


CHOSEN: dict[str, Choose] = {"classify": first, "answer": question, "choose": answers}  # by the head that is asked


class WindowEncoder(Encoder):
    """Whom `choose` chooses looks at all, and is looked at by all."""

    def __init__(self, config: LongformerConfig, choose: Choose | None = None):
        super().__init__(config)
        self.choose, self.separator = choose, config.separator
        attention = config.stack.block.attention
        size = attention.size or config.width // attention.heads
        windows = config.windows * config.layers if len(config.windows) == 1 else config.windows
        for block, window in zip(self.stack.blocks, windows, strict=False):
            own = Window(window // 2, config.width, attention.heads, size, bias=attention.bias)
            cast(Block, block).attention.route = own

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        *_, last = self.layers(tokens, types)
        return last

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        x = self.embedded(tokens, types)
        yield x
        mask = None if self.choose is None else chosen(self.choose(tokens, self.separator), tokens.rows)
        for state, _ in self.stack.each(x, Context(tokens.rows, mask, forgets=True)):
            yield state


def longformer(
    layers=12, width=768, heads=12, vocab=50265, *, longest=4098, window=512, types=1, epsilon=1e-5
) -> LongformerConfig:
    """RoBERTa's shape with more places."""
    config = bert(layers, width, heads, vocab, longest=longest, epsilon=epsilon)
    embedding = replace(config.embedding, first=2, types=types)
    return LongformerConfig(embedding, config.stack, (window,))


PRESETS = {
    "longformer-mini": longformer(4, 256, 4, window=128),
    "longformer-base-4096": longformer(),
    "longformer-large-4096": longformer(24, 1024, 16),
}

SILENT = longformer(vocab=30522, longest=512, types=2, epsilon=1e-12)  # what a config.json means that says nothing
GLOBAL = {"q": "query_global", "k": "key_global", "v": "value_global"}
BODY = BERT_BODY + Rules(
    tuple(
        (f"encoder.stack.blocks.{{i}}.attention.route.{ours}", f"encoder.layer.{{i}}.attention.self.{theirs}")
        for ours, theirs in GLOBAL.items()
    )
)


@dataclass(frozen=True)
class WindowSettings(Settings):
    """Their window is one number for all layers, or a list."""

    def load(self, config: C, theirs: Mapping[str, Any]) -> C:
        return super().load(config, listed(theirs))

    def save(self, config: Any, theirs: Mapping[str, Any] = {}) -> dict[str, Any]:
        said = super().save(config, listed(theirs))
        same = list(said[WINDOW]) == listed(theirs).get(WINDOW)
        return {**said, WINDOW: theirs[WINDOW] if same else every(config)}


def listed(theirs: Mapping[str, Any]) -> dict[str, Any]:
    window = theirs.get(WINDOW)
    return {**theirs, **({WINDOW: [window]} if isinstance(window, int) else {})}


def every(config: LongformerConfig) -> list[int]:
    return list(config.windows * config.layers if len(config.windows) == 1 else config.windows)


SETTINGS = WindowSettings(
    (
        *BERT_SETTINGS.pairs,
        ("embedding.first", "pad_token_id"),
        ("windows", WINDOW),
        ("separator", "sep_token_id"),
    ),
    {**BERT_SETTINGS.words, "pad_token_id": FIRST},
)

WORDS = WordHeadNames(
    "lm_head.dense",
    "lm_head.layer_norm",
    "lm_head",
    {"lm_head.decoder.weight": "longformer.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
    "gelu",
)


@dataclass(frozen=True)
class LongformerFamily(EncoderFamily):
    """What is asked decides which tokens are chosen."""

    def layout(self, architecture: str, rules: Rules, heads: Heads) -> Layout:
        choose = next((CHOSEN[head.role] for head in heads if head.role in CHOSEN), None)
        return Layout(architecture, rules, heads, partial(WindowEncoder, choose=choose))


FAMILY = LongformerFamily(
    SILENT,
    SETTINGS,
    BODY,
    "longformer.",
    {
        "LongformerModel": (pooled("pool", prefix=""),),
        "LongformerForMaskedLM": (WORDS,),
        "LongformerForSequenceClassification": (
            HeadNames("classify", "classifier.out_proj", "classifier.dense", "tanh", pool="first"),
        ),
        "LongformerForMultipleChoice": (pooled("choose", "classifier", "longformer."),),
        "LongformerForTokenClassification": (HeadNames("tag", "classifier"),),
        "LongformerForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
    kind=WindowEncoder,
    only=ONLY,
)
