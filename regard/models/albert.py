"""ALBERT (Lan et al., 2019): BERT with one block for all layers, a narrow table of words, and sentence order."""

from __future__ import annotations

from dataclasses import replace

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.models.bert import SETTINGS as BERT_SETTINGS
from regard.models.bert import bert
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, WordHeadNames


def albert(layers=12, width=768, heads=12, vocab=30000, *, narrow=128) -> EncoderConfig:
    config = bert(layers, width, heads, vocab, narrow=narrow, dropout=0.0)
    block = replace(config.stack.block, activation="gelu-tanh")
    return replace(config, stack=replace(config.stack, distinct=1, block=block))


PRESETS = {
    "albert-base": albert(),
    "albert-large": albert(24, 1024, 16),
    "albert-xlarge": albert(24, 2048, 16),
    "albert-xxlarge": albert(12, 4096, 64),
}

GROUP = "encoder.albert_layer_groups.{i}.albert_layers.0"  # published models have one layer in each group
BODY = Rules(
    (
        ("encoder.embed.tokens", "embeddings.word_embeddings"),
        ("encoder.embed.positions", "embeddings.position_embeddings"),
        ("encoder.embed.types", "embeddings.token_type_embeddings"),
        ("encoder.embed.norm", "embeddings.LayerNorm"),
        ("encoder.widen", "encoder.embedding_hidden_mapping_in"),
        ("encoder.stack.blocks.{i}.attention.q", f"{GROUP}.attention.query"),
        ("encoder.stack.blocks.{i}.attention.k", f"{GROUP}.attention.key"),
        ("encoder.stack.blocks.{i}.attention.v", f"{GROUP}.attention.value"),
        ("encoder.stack.blocks.{i}.attention.out", f"{GROUP}.attention.dense"),
        ("encoder.stack.blocks.{i}.attention_residual.norm", f"{GROUP}.attention.LayerNorm"),
        ("encoder.stack.blocks.{i}.feed.up", f"{GROUP}.ffn"),
        ("encoder.stack.blocks.{i}.feed.down", f"{GROUP}.ffn_output"),
        ("encoder.stack.blocks.{i}.feed_residual.norm", f"{GROUP}.full_layer_layer_norm"),
    ),
    ignored=("embeddings.position_ids",),
)

WIDTH = ("embedding.width", "hidden_size")
SETTINGS = Settings(
    (
        *(pair for pair in BERT_SETTINGS.pairs if pair != WIDTH),
        ("embedding.width", "embedding_size"),
        ("stack.distinct", "num_hidden_groups"),
    ),
    BERT_SETTINGS.words,
)

WORDS = WordHeadNames(
    "predictions.dense",
    "predictions.LayerNorm",
    "predictions",
    {
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
)


def pooled(role, out=None, prefix="albert.") -> HeadNames:
    return HeadNames(role, out, f"{prefix}pooler", "tanh", pool="first")


FAMILY = EncoderFamily(
    PRESETS["albert-xxlarge"],  # whose shape a config.json means that does not say it
    SETTINGS,
    BODY,
    "albert.",
    {
        "AlbertModel": (pooled("pool", prefix=""),),
        "AlbertForMaskedLM": (WORDS,),
        "AlbertForPreTraining": (WORDS, pooled("next", "sop_classifier.classifier")),
        "AlbertForSequenceClassification": (pooled("classify", "classifier"),),
        "AlbertForMultipleChoice": (pooled("choose", "classifier"),),
        "AlbertForTokenClassification": (HeadNames("tag", "classifier"),),
        "AlbertForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
)
