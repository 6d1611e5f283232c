"""RoBERTa (Liu et al., 2019): BERT's encoder over byte-level BPE, trained longer and on hidden words alone."""

from __future__ import annotations

from dataclasses import replace

from regard.checkpoints.settings import Settings
from regard.models.bert import BODY, EPSILON, SETTINGS, bert, pooled
from regard.models.encoder import EncoderConfig
from regard.models.published import EncoderFamily, HeadNames, SomeHeadNames, WordHeadNames


def roberta(layers=12, width=768, heads=12, vocab=50265, epsilon=1e-5) -> EncoderConfig:
    """Places are counted from 2 on: those before are of the padding that its authors had.  There is one segment."""
    config = bert(layers, width, heads, vocab, longest=514, epsilon=epsilon)
    return replace(config, embedding=replace(config.embedding, first=2, types=1))


PRESETS = {"roberta-base": roberta(), "roberta-large": roberta(24, 1024, 16)}
SILENT = roberta(epsilon=EPSILON)  # what a config.json that does not name an epsilon means to everyone who reads it

FIRST = {padding: padding + 1 for padding in range(512)}  # a row's first place is the one behind the padding's

KEYS = Settings((*SETTINGS.pairs, ("embedding.first", "pad_token_id")), {**SETTINGS.words, "pad_token_id": FIRST})


def roberta_family(name: str, prefix: str = "roberta.") -> EncoderFamily:
    """The family whose classes are called `name`ForMaskedLM and so on: several models share RoBERTa's network."""
    words = WordHeadNames(
        "lm_head.dense",
        "lm_head.layer_norm",
        "lm_head",
        {
            "lm_head.decoder.weight": f"{prefix}embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        "gelu",
    )
    first = HeadNames("classify", "classifier.out_proj", "classifier.dense", "tanh", pool="first")
    heads: dict[str, SomeHeadNames] = {
        "Model": pooled("pool", prefix=""),
        "ForMaskedLM": words,
        "ForSequenceClassification": first,
        "ForMultipleChoice": pooled("choose", "classifier", prefix),
        "ForTokenClassification": HeadNames("tag", "classifier"),
        "ForQuestionAnswering": HeadNames("answer", "qa_outputs"),
    }
    return EncoderFamily(SILENT, KEYS, BODY, prefix, {name + kind: (head,) for kind, head in heads.items()})


FAMILY = roberta_family("Roberta")
