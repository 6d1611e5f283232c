"""DistilBERT (Sanh et al., 2019): half of BERT's layers, taught by all of them; no segments and no pooler."""

from __future__ import annotations

from dataclasses import replace

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.models.bert import ACTIVATIONS, bert
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, WordHeadNames


def distilbert(layers=6, width=768, heads=12, vocab=30522) -> EncoderConfig:
    config = bert(layers, width, heads, vocab)
    return replace(config, embedding=replace(config.embedding, types=0))


PRESETS = {"distilbert-base": distilbert()}

BODY = Rules(
    (
        ("encoder.embed.tokens", "embeddings.word_embeddings"),
        ("encoder.embed.positions", "embeddings.position_embeddings"),
        ("encoder.embed.norm", "embeddings.LayerNorm"),
        ("encoder.stack.blocks.{i}.attention.q", "transformer.layer.{i}.attention.q_lin"),
        ("encoder.stack.blocks.{i}.attention.k", "transformer.layer.{i}.attention.k_lin"),
        ("encoder.stack.blocks.{i}.attention.v", "transformer.layer.{i}.attention.v_lin"),
        ("encoder.stack.blocks.{i}.attention.out", "transformer.layer.{i}.attention.out_lin"),
        ("encoder.stack.blocks.{i}.attention_residual.norm", "transformer.layer.{i}.sa_layer_norm"),
        ("encoder.stack.blocks.{i}.feed.up", "transformer.layer.{i}.ffn.lin1"),
        ("encoder.stack.blocks.{i}.feed.down", "transformer.layer.{i}.ffn.lin2"),
        ("encoder.stack.blocks.{i}.feed_residual.norm", "transformer.layer.{i}.output_layer_norm"),
    ),
    ignored=("embeddings.position_ids",),
)

SETTINGS = Settings(
    (
        ("stack.layers", "n_layers"),
        ("stack.block.width", "dim"),
        ("stack.block.inner", "hidden_dim"),
        ("stack.block.attention.heads", "n_heads"),
        ("stack.block.attention.dropout", "attention_dropout"),
        ("stack.block.activation", "activation"),
        ("stack.block.dropout", "dropout"),
        ("embedding.vocab", "vocab_size"),
        ("embedding.width", "dim"),
        ("embedding.longest", "max_position_embeddings"),
        ("embedding.dropout", "dropout"),
    ),
    {"activation": ACTIVATIONS["hidden_act"]},
)

WORDS = WordHeadNames(
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
    {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)


def sentence(role) -> HeadNames:
    return HeadNames(role, "classifier", "pre_classifier", "relu", pool="first")


FAMILY = EncoderFamily(
    distilbert(),
    SETTINGS,
    BODY,
    "distilbert.",
    {
        "DistilBertModel": (),
        "DistilBertForMaskedLM": (WORDS,),
        "DistilBertForSequenceClassification": (sentence("classify"),),
        "DistilBertForMultipleChoice": (sentence("choose"),),
        "DistilBertForTokenClassification": (HeadNames("tag", "classifier"),),
        "DistilBertForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
)
