"""The families: each a config, presets, and what its paper brought that was new."""

from __future__ import annotations

from regard.models import seq2seq, transformer

PRESETS = seq2seq.PRESETS | transformer.PRESETS

FAMILIES = {  # model_type in config.json -> config and module
    "seq2seq": (seq2seq.Seq2SeqConfig, seq2seq.Seq2Seq),
    "transformer": (transformer.TransformerConfig, transformer.Transformer),
}
