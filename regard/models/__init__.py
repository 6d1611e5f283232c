"""The families: each a config, presets, and what its paper brought that was new."""

from __future__ import annotations

from regard.models import albert, bert, distilbert, electra, marian, roberta, seq2seq, transformer

TRANSLATORS = seq2seq.PRESETS | transformer.PRESETS
ENCODERS = bert.PRESETS | roberta.PRESETS | distilbert.PRESETS | albert.PRESETS | electra.PRESETS
PRESETS = TRANSLATORS | ENCODERS

PUBLISHED = {  # model_type in a config.json that others wrote, too
    "bert": bert.FAMILY,
    "roberta": roberta.FAMILY,
    "distilbert": distilbert.FAMILY,
    "albert": albert.FAMILY,
    "electra": electra.FAMILY,
}

PUBLISHED_TRANSLATORS = {"marian": marian.load}  # the same of models that translate

FAMILIES = {  # model_type in config.json -> config and module
    "seq2seq": (seq2seq.Seq2SeqConfig, seq2seq.Seq2Seq),
    "transformer": (transformer.TransformerConfig, transformer.Transformer),
}
