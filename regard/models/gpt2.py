"""GPT-2 (Radford et al., 2019): a causal stack over bytes in pieces, normed before each layer and once at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.attention.attention import AttentionConfig
from regard.checkpoints.rules import Rules, transposed
from regard.checkpoints.settings import Settings
from regard.layers.block import BlockConfig
from regard.layers.embedding import EmbeddingConfig
from regard.layers.stack import StackConfig
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, NextHeadNames

C = TypeVar("C")
INNER, WIDTH = "n_inner", "n_embd"


def gpt2(layers=12, width=768, heads=12, vocab=50257, *, longest=1024, dropout=0.1) -> EncoderConfig:
    """The paper's shape: feed-forward layers four times as wide as the rest, places learned."""
    block = BlockConfig(
        width, 4 * width, "gelu-tanh", norm_first=True, dropout=dropout, attention=AttentionConfig(heads=heads)
    )
    embedding = EmbeddingConfig(vocab, width, "learned", longest, scaled=False, dropout=dropout)
    return EncoderConfig(embedding, StackConfig(layers, causal=True, final_norm=True, block=block))


PRESETS = {
    "gpt2-tiny": gpt2(2, 128, 2, longest=256),
    "gpt-char": gpt2(6, 384, 6, longest=256, dropout=0.2),  # nanoGPT's, for characters
    "gpt2-mini": gpt2(4, 256, 4, longest=512),
    "gpt2-small": gpt2(),
    "gpt2-medium": gpt2(24, 1024, 16),
    "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25),
}

BLOCKS = Rules(
    (
        (
            tuple(f"encoder.stack.blocks.{{i}}.attention.{part}" for part in "qkv"),
            "h.{i}.attn.c_attn",
            transposed,
        ),
        ("encoder.stack.blocks.{i}.attention.out", "h.{i}.attn.c_proj", transposed),
        ("encoder.stack.blocks.{i}.attention_residual.norm", "h.{i}.ln_1"),
        ("encoder.stack.blocks.{i}.feed.up", "h.{i}.mlp.c_fc", transposed),
        ("encoder.stack.blocks.{i}.feed.down", "h.{i}.mlp.c_proj", transposed),
        ("encoder.stack.blocks.{i}.feed_residual.norm", "h.{i}.ln_2"),
    ),
    ignored=("h.{i}.attn.bias", "h.{i}.attn.masked_bias"),  # the mask, as older files have it
)
BODY = BLOCKS + Rules(
    (("encoder.embed.tokens", "wte"), ("encoder.embed.positions", "wpe"), ("encoder.stack.norm", "ln_f"))
)


@dataclass(frozen=True)
class GPTSettings(Settings):
    """Their feed-forward layers are four times as wide as the rest unless they say otherwise."""

    def load(self, config: C, theirs: Mapping[str, Any]) -> C:
        return super().load(config, {**theirs, INNER: self.inner(config, theirs)})

    def save(self, config: Any, theirs: Mapping[str, Any] = {}) -> dict[str, Any]:
        inner = self.inner(config, theirs)
        said = super().save(config, {**theirs, INNER: inner})
        silent = {INNER: theirs[INNER]} if INNER in theirs else {}
        return said if said[INNER] != inner else {key: said[key] for key in said if key != INNER} | silent

    def inner(self, config: Any, theirs: Mapping[str, Any]) -> Any:
        if theirs.get(INNER) is not None:
            return theirs[INNER]
        width = theirs.get(WIDTH, config.width)
        return 4 * width if isinstance(width, int) else width  # a width that is no number is told of as such


PAIRS = (
    ("stack.layers", "n_layer"),
    ("stack.block.width", WIDTH),
    ("stack.block.inner", INNER),
    ("stack.block.attention.heads", "n_head"),
    ("stack.block.attention.dropout", "attn_pdrop"),
    ("stack.block.dropout", "resid_pdrop"),
    ("stack.block.epsilon", "layer_norm_epsilon"),
    ("embedding.vocab", "vocab_size"),
    ("embedding.width", WIDTH),
    ("embedding.longest", "n_positions"),
    ("embedding.dropout", "embd_pdrop"),
)
ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh", "silu": "swish"}
ONLY = {  # of what would change what is computed, the one value that is understood
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "tie_word_embeddings": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "summary_activation": None,
    "summary_proj_to_labels": True,
}

PREFIX = "transformer."
SCORE = HeadNames("classify", "score", pool="last", bias=False)
CHOICE = HeadNames("choose", "multiple_choice_head.summary", pool="last")
WRITE = NextHeadNames({"lm_head.weight": "transformer.wte.weight"})

FAMILY = EncoderFamily(
    gpt2(),
    GPTSettings((*PAIRS, ("stack.block.activation", "activation_function")), {"activation_function": ACTIVATIONS}),
    BODY,
    PREFIX,
    {
        "GPT2Model": (),
        "GPT2LMHeadModel": (WRITE,),
        "GPT2DoubleHeadsModel": (WRITE, CHOICE),
        "GPT2ForSequenceClassification": (SCORE,),
        "GPT2ForTokenClassification": (HeadNames("tag", "classifier"),),
        "GPT2ForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
    only=ONLY,
)
