"""BERT (Devlin et al., 2018): an encoder over word pieces, pretrained on hidden words and next sentences."""

from __future__ import annotations

from regard.attention.attention import AttentionConfig
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.layers.block import BlockConfig
from regard.layers.embedding import EmbeddingConfig
from regard.layers.stack import StackConfig
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, WordHeadNames

EPSILON = 1e-12
ACTIVATIONS = {"hidden_act": {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "silu": "swish"}}


def bert(layers=12, width=768, heads=12, vocab=30522, *, narrow=None, longest=512, dropout=0.1, epsilon=EPSILON):
    """The paper's shape: feed-forward layers four times as wide as the rest, two segments."""
    attention = AttentionConfig(heads=heads)
    block = BlockConfig(width, 4 * width, "gelu", dropout=dropout, epsilon=epsilon, attention=attention)
    embedding = EmbeddingConfig(
        vocab, narrow or width, "learned", longest, scaled=False, dropout=dropout, types=2, epsilon=epsilon
    )
    return EncoderConfig(embedding, StackConfig(layers, block=block))


PRESETS = {  # the sizes of Turc et al. 2019 beside the paper's two
    "bert-tiny": bert(2, 128, 2),
    "bert-mini": bert(4, 256, 4),
    "bert-small": bert(4, 512, 8),
    "bert-medium": bert(8, 512, 8),
    "bert-base": bert(),
    "bert-large": bert(24, 1024, 16),
}

BODY = Rules(
    (
        ("encoder.embed.tokens", "embeddings.word_embeddings"),
        ("encoder.embed.positions", "embeddings.position_embeddings"),
        ("encoder.embed.types", "embeddings.token_type_embeddings"),
        ("encoder.embed.norm", "embeddings.LayerNorm"),
        ("encoder.stack.blocks.{i}.attention.q", "encoder.layer.{i}.attention.self.query"),
        ("encoder.stack.blocks.{i}.attention.k", "encoder.layer.{i}.attention.self.key"),
        ("encoder.stack.blocks.{i}.attention.v", "encoder.layer.{i}.attention.self.value"),
        ("encoder.stack.blocks.{i}.attention.out", "encoder.layer.{i}.attention.output.dense"),
        ("encoder.stack.blocks.{i}.attention_residual.norm", "encoder.layer.{i}.attention.output.LayerNorm"),
        ("encoder.stack.blocks.{i}.feed.up", "encoder.layer.{i}.intermediate.dense"),
        ("encoder.stack.blocks.{i}.feed.down", "encoder.layer.{i}.output.dense"),
        ("encoder.stack.blocks.{i}.feed_residual.norm", "encoder.layer.{i}.output.LayerNorm"),
    ),
    ignored=("embeddings.position_ids",),
)

STACK = (
    ("stack.layers", "num_hidden_layers"),
    ("stack.block.width", "hidden_size"),
    ("stack.block.inner", "intermediate_size"),
    ("stack.block.attention.heads", "num_attention_heads"),
    ("stack.block.attention.dropout", "attention_probs_dropout_prob"),
    ("stack.block.activation", "hidden_act"),
    ("stack.block.dropout", "hidden_dropout_prob"),
    ("stack.block.epsilon", "layer_norm_eps"),
)

SETTINGS = Settings(
    (
        *STACK,
        ("embedding.vocab", "vocab_size"),
        ("embedding.width", "hidden_size"),
        ("embedding.longest", "max_position_embeddings"),
        ("embedding.types", "type_vocab_size"),
        ("embedding.dropout", "hidden_dropout_prob"),
        ("embedding.epsilon", "layer_norm_eps"),
    ),
    ACTIVATIONS,
)

WORDS = WordHeadNames(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions",
    {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)


def pooled(role, out=None, prefix="bert.") -> HeadNames:
    """What BERT asks of a whole text it asks of the first token, through a layer called the pooler."""
    return HeadNames(role, out, f"{prefix}pooler.dense", "tanh", pool="first")


FAMILY = EncoderFamily(
    bert(),
    SETTINGS,
    BODY,
    "bert.",
    {
        "BertModel": (pooled("pool", prefix=""),),
        "BertForMaskedLM": (WORDS,),
        "BertForPreTraining": (WORDS, pooled("next", "cls.seq_relationship")),
        "BertForNextSentencePrediction": (pooled("next", "cls.seq_relationship"),),
        "BertForSequenceClassification": (pooled("classify", "classifier"),),
        "BertForMultipleChoice": (pooled("choose", "classifier"),),
        "BertForTokenClassification": (HeadNames("tag", "classifier"),),
        "BertForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
)
