"""The families: each a config, presets, and what its paper brought that was new."""

from __future__ import annotations

from types import ModuleType

from regard.models import (
    albert,
    bert,
    bigram,
    context2vec,
    cove,
    distilbert,
    electra,
    elmo,
    gpt,
    gpt2,
    lstm,
    marian,
    roberta,
    seq2seq,
    t5,
    transformer,
    transformer_xl,
)

READERS: dict[str, ModuleType] = {  # model_type in a config.json, others' or ours -> its family's PRESETS and FAMILY
    "bert": bert,
    "roberta": roberta,
    "distilbert": distilbert,
    "albert": albert,
    "electra": electra,
    "openai-gpt": gpt,
    "gpt2": gpt2,
    "transformer-xl": transformer_xl,
    "bigram": bigram,
    "lstm": lstm,
    "elmo": elmo,
    "context2vec": context2vec,
    "cove": cove,
}

PUBLISHED_TRANSLATORS = {"marian": marian.load, "t5": t5.load}  # the same of models that translate

FAMILIES = {  # model_type in config.json -> config and module; a config is of the first that fits
    "seq2seq": (seq2seq.Seq2SeqConfig, seq2seq.Seq2Seq),
    "t5": (t5.T5Config, t5.T5),
    "transformer": (transformer.TransformerConfig, transformer.Transformer),
}

TRANSLATORS = seq2seq.PRESETS | transformer.PRESETS | t5.PRESETS
ENCODERS = {preset: config for file in READERS.values() for preset, config in file.PRESETS.items()}
PRESETS = TRANSLATORS | ENCODERS
PUBLISHED = {family: file.FAMILY for family, file in READERS.items()}


def family_of(preset: str) -> str:
    """The model_type of a preset that reads."""
    return next(family for family, file in READERS.items() if preset in file.PRESETS)
