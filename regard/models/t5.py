"""T5 (Raffel et al., 2020): a Transformer without biases or places, whose attention tells distances by buckets; every
task is text to text.  Version 1.1 has gates (Shazeer, 2020) and an output of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attention import Attention, AttentionConfig
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings, check_plain, own_fields, without_own
from regard.config import different_fields, update
from regard.errors import Problem, UsageProblem
from regard.layers.block import BlockConfig
from regard.layers.embedding import EmbeddingConfig
from regard.layers.feed_forward import FeedForward
from regard.layers.stack import Stack, StackConfig
from regard.models.bert import ACTIVATIONS
from regard.models.encoder import Compared
from regard.models.published_translator import PublishedTranslator, check_generation, filled, one_table
from regard.models.transformer import Transformer, TransformerConfig
from regard.rows import Tokens


@dataclass(frozen=True)
class T5Config(TransformerConfig):
    scaled_output: bool = True  # states times width ^ -0.5, where the output is the table, whose numbers are large


def t5(layers=6, width=512, heads=8, inner=2048, *, size=64, vocab=32128, gated=False, dropout=0.1) -> T5Config:
    """The paper's shape, or with gates that of version 1.1; `size` is of a head."""
    attention = AttentionConfig(heads, size, bias=False, score="dot")
    block = BlockConfig(
        width, inner, "gelu-tanh" if gated else "relu", gated, bias=False, norm="rms", norm_first=True,
        dropout=dropout, inner_dropout=dropout, epsilon=1e-6, attention=attention,
    )  # fmt: skip
    return T5Config(
        EmbeddingConfig(vocab, width, "none", scaled=False, dropout=dropout),
        tied=not gated,
        encoder=StackConfig(layers, final_norm=True, buckets=32, block=block),
        decoder=StackConfig(layers, causal=True, final_norm=True, buckets=32, block=replace(block, cross=True)),
        scaled_output=not gated,
    )


PRESETS = {
    "t5-tiny": t5(4, 256, 4, 1024),  # of Tay et al., 2021
    "t5-small": t5(),
    "t5-base": t5(12, 768, 12, 3072),
    "t5-large": t5(24, 1024, 16, 4096),
    "t5-v1.1-small": t5(8, 512, 6, 1024, gated=True),
    "t5-v1.1-base": t5(12, 768, 12, 2048, gated=True),
}


class T5(Transformer):
    config: T5Config

    def __init__(self, config: T5Config):
        super().__init__(alike(config))
        self.scale = config.embedding.width**-0.5 if config.scaled_output else 1.0
        self.dropout = nn.Dropout(config.decoder.block.dropout)  # of what the stacks give
        begin(self)

    def encode(self, source: Tokens) -> Tensor:  # (M, W)
        return self.dropout(super().encode(source))

    def logits(self, states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        return super().logits(self.dropout(states) * self.scale)

    def compared(self, states: Tensor) -> Compared:
        return super().compared(self.dropout(states) * self.scale)


def begin(model: T5) -> None:
    """Numbers to begin with: a product keeps the size of what it reads.  The score does not divide by sqrt(D): queries
    begin that much smaller instead."""
    for part in model.modules():
        if isinstance(part, Attention):
            for line in (part.q, part.k, part.v, part.out):
                drawn(line)
            if isinstance(part.q, nn.Linear):
                with torch.no_grad():
                    part.q.weight.mul_((part.q.out_features / part.heads) ** -0.5)
        elif isinstance(part, FeedForward):
            for line in filter(None, (part.up, part.gate, part.down)):
                drawn(line)
        elif isinstance(part, Stack) and part.distances is not None:
            nn.init.normal_(part.distances.table.weight, std=model.config.embedding.width**-0.5)
    drawn(model.out)
    nn.init.normal_(model.embed.tokens.weight)  # the output too, where it is the same


def drawn(line: nn.Module) -> None:
    if isinstance(line, nn.Linear):  # attention may have no projections
        nn.init.normal_(line.weight, std=line.in_features**-0.5)


def alike(config: T5Config) -> T5Config:
    """Whether it is a T5: what the stacks have in common has one name in a config.json."""
    encoder, decoder = config.encoder, replace(config.decoder, layers=config.encoder.layers, causal=False)
    decoder = replace(decoder, block=replace(decoder.block, cross=False))
    if other := different_fields(encoder, decoder):
        named = ", ".join(f"encoder.{path} and decoder.{path}" for path in other)
        raise UsageProblem(f"the stacks of T5 differ in their number of layers alone; change {named} in the same way")
    if config.target_vocab is not None:
        raise UsageProblem("T5 has one vocabulary for source and target, and one table; leave target_vocab alone")
    return config


# The form in which it is published

ONLY = {  # settings that would change what a model computes, and the one value that is understood
    "is_decoder": False,
    "is_encoder_decoder": True,
    "tie_encoder_decoder": False,
}
STACK = (
    ("block.width", "d_model"),
    ("block.inner", "d_ff"),
    ("block.dropout", "dropout_rate"),
    ("block.inner_dropout", "dropout_rate"),
    ("block.epsilon", "layer_norm_epsilon"),
    ("block.attention.heads", "num_heads"),
    ("block.attention.size", "d_kv"),
    ("buckets", "relative_attention_num_buckets"),
    ("furthest", "relative_attention_max_distance"),
)
SETTINGS = Settings(
    (
        ("embedding.vocab", "vocab_size"),
        ("embedding.width", "d_model"),
        ("embedding.dropout", "dropout_rate"),
        ("encoder.layers", "num_layers"),
        ("decoder.layers", "num_decoder_layers"),
        *((f"{side}.{ours}", theirs) for side in ("encoder", "decoder") for ours, theirs in STACK),
    )
)
SELF, CROSS = "layer.0.SelfAttention", "layer.1.EncDecAttention"
TABLES, OUT = ("shared", "encoder.embed_tokens", "decoder.embed_tokens"), "lm_head"
UNUSED = f"decoder.block.0.{CROSS}.relative_attention_bias.weight"  # in the first files, and nothing looks at it


def attention(ours: str, theirs: str, residual: str) -> tuple[tuple[str, str], ...]:
    parts = {"q": "q", "k": "k", "v": "v", "out": "o"}
    lines = tuple((f"{ours}.{one}", f"{theirs}.{other}") for one, other in parts.items())
    return (*lines, (f"{ours}_residual.norm", residual))


def feed(layer: int, gated: bool) -> tuple[tuple[str, str], ...]:
    lines = {"up": "wi_0", "gate": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
    names = tuple((f"feed.{ours}", f"layer.{layer}.DenseReluDense.{theirs}") for ours, theirs in lines.items())
    return (*names, ("feed_residual.norm", f"layer.{layer}.layer_norm"))


def rules_of(config: T5Config, tensors: Mapping[str, Tensor]) -> Rules:
    """The names in a file, which tell the table by one name or by several."""
    gated, own = config.encoder.block.gated, attention("attention", SELF, "layer.0.layer_norm")
    layers = {
        "encoder": (*own, *feed(1, gated)),
        "decoder": (*own, *attention("cross", CROSS, "layer.1.layer_norm"), *feed(2, gated)),
    }
    rows = [
        (f"{side}.blocks.{{i}}.{ours}", f"{side}.block.{{i}}.{theirs}")
        for side, names in layers.items()
        for ours, theirs in names
    ]
    for side in layers:
        rows.append((f"{side}.distances.table", f"{side}.block.0.{SELF}.relative_attention_bias"))
        rows.append((f"{side}.norm", f"{side}.final_layer_norm"))
    own_output = () if config.tied else (("out", OUT),)
    return Rules((*rows, *own_output), ignored=(UNUSED,)) + one_table(tensors, (*TABLES, *[OUT] * config.tied))


def load(
    theirs: dict[str, Any], generation: dict[str, Any], tensors: Mapping[str, Tensor], place: Path
) -> PublishedTranslator:
    """A model from what its two configs and a file of tensors say."""
    check_plain(theirs, ONLY, place)
    check_generation(theirs, generation, place)
    again = partial(configured, place=place, tied=is_tied(tensors))
    config = own_fields(again(theirs), theirs)
    rules = rules_of(config, tensors)
    model = filled(T5, config, rules, tensors, place)
    constants = {name: tensors[name] for name in rules.ignored if name in tensors}
    precisions = {name: tensor.dtype for name, tensor in tensors.items()}
    plain = without_own(theirs)
    return PublishedTranslator(model, plain, generation, rules, constants, precisions, again, writes_padding=True)


def is_tied(tensors: Mapping[str, Tensor]) -> bool:
    """Whether the output is the table, by what a file holds: newer configs call both layouts tied."""
    table = next((tensors[f"{name}.weight"] for name in TABLES if f"{name}.weight" in tensors), None)
    out = tensors.get(f"{OUT}.weight")
    return out is None or table is None or torch.equal(out, table)


def configured(theirs: dict[str, Any], place: Path, *, tied: bool) -> T5Config:
    said = {key: value for key, value in theirs.items() if value is not None}
    layers = {"num_decoder_layers": said["num_layers"]} if "num_layers" in said else {}
    block = feed_forward(said, place)
    scaled = said.get("scale_decoder_outputs", said.get("tie_word_embeddings") is not False)
    changes = {"tied": tied, "scaled_output": scaled, "encoder": {"block": block}, "decoder": {"block": block}}
    return update(SETTINGS.load(t5(), layers | said), changes)


def feed_forward(said: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """What the feed-forward layers are, which may be said twice: "gated-gelu", or "gelu_new" and that it is gated."""
    name = str(said.get("feed_forward_proj", "relu"))
    gate, _, word = name.rpartition("-")
    word = "gelu_new" if name == "gated-gelu" else word
    for key, value in {"dense_act_fn": word, "is_gated_act": bool(gate)}.items():
        if gate not in ("", "gated") or said.get(key, value) != value:
            raise Problem(f"{place}: feed_forward_proj is {name!r} and {key} {said.get(key)!r}: it is not clear what")
    return {"activation": ACTIVATIONS["hidden_act"].get(word, word), "gated": bool(gate)}


def new(model: T5, padding: int, end: int) -> PublishedTranslator:
    """A model that was made here, in the same form; it begins to write from the padding token."""
    config, block = model.config, model.config.encoder.block
    word = {"gelu-tanh": "gelu_new", "swish": "silu"}.get(block.activation, block.activation)
    ids = {"pad_token_id": padding, "eos_token_id": end, "decoder_start_token_id": padding}
    theirs = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "feed_forward_proj": "gated-" * block.gated + ("gelu" if block.gated and word == "gelu_new" else word),
        "tie_word_embeddings": config.tied,
        "scale_decoder_outputs": config.scaled_output,
    }
    said, rules = SETTINGS.save(config, theirs | ids), rules_of(config, {})
    again = partial(configured, place=Path("config.json"), tied=config.tied)
    return PublishedTranslator(model, said, ids, rules, {}, {}, again, writes_padding=True).check_savable()
