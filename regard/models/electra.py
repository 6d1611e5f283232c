"""ELECTRA (Clark et al., 2020): BERT's encoder, asked which words a small generator has replaced."""

from __future__ import annotations

from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import Settings
from regard.models.albert import WIDTH
from regard.models.bert import BODY as BERT_BODY
from regard.models.bert import SETTINGS as BERT_SETTINGS
from regard.models.bert import bert
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, Layout, WordHeadNames


def electra(layers=12, width=256, heads=4, vocab=30522, *, narrow=128) -> EncoderConfig:
    return bert(layers, width, heads, vocab, narrow=narrow)


PRESETS = {
    "electra-small": electra(),
    "electra-base": electra(12, 768, 12, narrow=768),
    "electra-large": electra(24, 1024, 16, narrow=1024),
}

BODY = Rules((*BERT_BODY.rows, ("encoder.widen", "embeddings_project")), ignored=BERT_BODY.ignored)
SETTINGS = Settings(
    (*(pair for pair in BERT_SETTINGS.pairs if pair != WIDTH), ("embedding.width", "embedding_size")),
    BERT_SETTINGS.words,
)

WORDS = WordHeadNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head",
    {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    "gelu",
)
REPLACED = HeadNames("replaced", "discriminator_predictions.dense_prediction", "discriminator_predictions.dense")
LINEAR = HeadNames(
    "classify", "model.head", pool="first"
)  # AutoGluon's: nothing between the first token and the scores

FAMILY = EncoderFamily(
    electra(),
    SETTINGS,
    BODY,
    "electra.",
    {
        "ElectraModel": (),
        "ElectraForPreTraining": (REPLACED,),
        "ElectraForMaskedLM": (WORDS,),
        "ElectraForSequenceClassification": (
            HeadNames("classify", "classifier.out_proj", "classifier.dense", "gelu", pool="first"),
        ),
        "ElectraForMultipleChoice": (
            HeadNames("choose", "classifier", "sequence_summary.summary", "gelu", pool="first"),
        ),
        "ElectraForTokenClassification": (HeadNames("tag", "classifier"),),
        "ElectraForQuestionAnswering": (HeadNames("answer", "qa_outputs"),),
    },
    (Layout("HFAutoModelForTextPrediction", BODY + LINEAR.rules, (LINEAR,)),),
)
