"""Marian's translators as they are published (opus-mt; Tiedemann and Thottingal, 2020): the Transformer, its sines
before its cosines, with a bias on the logits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings, check_plain, own_fields, without_own
from regard.config import change, update
from regard.errors import Problem
from regard.layers.embedding import halves
from regard.models.bert import ACTIVATIONS
from regard.models.encoder import Compared
from regard.models.published_translator import PublishedTranslator, check_generation, filled, one_table
from regard.models.transformer import Transformer, TransformerConfig, transformer

ONLY = {  # settings that would change what a model computes, and the one value that is understood
    "static_position_embeddings": True,
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
    "tie_word_embeddings": True,
}

SILENT = update(  # what a config.json means that does not say it
    transformer(12, 1024, 16, 4096, vocab=58101),
    {"embedding": {"positions": "sinusoidal-halves", "scaled": False}}
    | {side: {"block": {"activation": "gelu"}} for side in ("encoder", "decoder")},
)

STACK = (
    ("layers", "{side}_layers"),
    ("block.width", "d_model"),
    ("block.inner", "{side}_ffn_dim"),
    ("block.activation", "activation_function"),
    ("block.dropout", "dropout"),
    ("block.inner_dropout", "activation_dropout"),
    ("block.attention.heads", "{side}_attention_heads"),
    ("block.attention.dropout", "attention_dropout"),
)
SETTINGS = Settings(
    (
        ("embedding.vocab", "vocab_size"),
        ("embedding.width", "d_model"),
        ("embedding.longest", "max_position_embeddings"),
        ("embedding.scaled", "scale_embedding"),
        ("embedding.dropout", "dropout"),
        *((f"encoder.{ours}", theirs.format(side="encoder")) for ours, theirs in STACK),
        *((f"decoder.{ours}", theirs.format(side="decoder")) for ours, theirs in STACK),
    ),
    {"activation_function": ACTIVATIONS["hidden_act"]},
)

LAYER = (
    ("attention.q", "self_attn.q_proj"),
    ("attention.k", "self_attn.k_proj"),
    ("attention.v", "self_attn.v_proj"),
    ("attention.out", "self_attn.out_proj"),
    ("attention_residual.norm", "self_attn_layer_norm"),
    ("feed.up", "fc1"),
    ("feed.down", "fc2"),
    ("feed_residual.norm", "final_layer_norm"),
)
CROSS = (
    ("cross.q", "encoder_attn.q_proj"),
    ("cross.k", "encoder_attn.k_proj"),
    ("cross.v", "encoder_attn.v_proj"),
    ("cross.out", "encoder_attn.out_proj"),
    ("cross_residual.norm", "encoder_attn_layer_norm"),
)
SHARED, SOURCE, TARGET, OUT = "model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
BODY = Rules(
    (
        *((f"encoder.blocks.{{i}}.{ours}", f"model.encoder.layers.{{i}}.{theirs}") for ours, theirs in LAYER),
        *((f"decoder.blocks.{{i}}.{ours}", f"model.decoder.layers.{{i}}.{theirs}") for ours, theirs in LAYER + CROSS),
        ("bias", "final_logits_bias"),
    ),
    ignored=POSITIONS,
)


def tables(tensors: Mapping[str, Tensor], shared: bool) -> Rules:
    """Where the words are."""
    if shared:
        return one_table(tensors, (SHARED, SOURCE, TARGET, OUT))
    rows = (("embed.tokens", SOURCE), ("embed_target.tokens", TARGET))
    return Rules(rows, {f"{OUT}.weight": f"{TARGET}.weight"})


class Marian(Transformer):
    """A word has a bias, whatever was read: how likely it is at all."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.bias = nn.Parameter(torch.zeros(1, self.out.out_features))

    def logits(self, states: Tensor) -> Tensor:  # (N, W) -> (N, V)
        return self.compared(states).scores()

    def compared(self, states: Tensor) -> Compared:
        return Compared(states, self.out.weight, self.bias[0])


def load(
    theirs: dict[str, Any], generation: dict[str, Any], tensors: Mapping[str, Tensor], place: Path
) -> PublishedTranslator:
    """A model from what its two configs and a file of tensors say."""
    check_generation(theirs, generation, place)
    config = own_fields(configured(theirs, place), theirs)
    rules = BODY + tables(tensors, shared=config.target_vocab is None)
    constants = {name: tensors[name] for name in POSITIONS if name in tensors}
    model = filled(Marian, config, rules, tensors, place)
    check_positions(config, constants, place)
    precisions = {name: tensor.dtype for name, tensor in tensors.items()}
    again = partial(configured, place=place)
    return PublishedTranslator(model, without_own(theirs), generation, rules, constants, precisions, again)


def configured(theirs: dict[str, Any], place: Path) -> TransformerConfig:
    """The config that the published keys of a config.json describe."""
    check_plain(theirs, ONLY, place)
    config = SETTINGS.load(SILENT, theirs)
    if theirs.get("share_encoder_decoder_embeddings") is not False:
        return config
    return change(config, "target_vocab", theirs.get("decoder_vocab_size") or config.embedding.vocab)


def new(model: Marian, theirs: dict[str, Any], generation: dict[str, Any]) -> PublishedTranslator:
    """A model that was made here, in the form in which others publish them; `theirs` and `generation` are for its two
    configs, beside what the model's own says."""
    vocab = model.config.target_vocab
    apart = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": vocab} if vocab else {}
    named = {"model_type": "marian", "architectures": ["MarianMTModel"]}
    said, again = SETTINGS.save(model.config, named | theirs | apart), partial(configured, place=Path("config.json"))
    rules = BODY + tables({}, shared=vocab is None)
    return PublishedTranslator(model, said, generation, rules, {}, {}, again).check_savable()


def check_positions(config: TransformerConfig, tables: Mapping[str, Tensor], place: Path) -> None:
    """Tables of positions are kept and not used: they must be what is computed here, as far as a half can tell."""
    size = config.embedding.longest, config.embedding.width
    for name, table in tables.items():
        if table.shape != size or not torch.allclose(table.float(), halves(torch.arange(size[0]), size[1]), atol=1e-3):
            raise Problem(f"{place}: {name} is not the table of sines and cosines, and only that can be read here")
