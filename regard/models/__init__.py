"""The families: each a config, presets, and what its paper brought that was new."""

from __future__ import annotations

from types import ModuleType

from regard.models import (
    albert,
    bert,
    bigram,
    camembert,
    context2vec,
    convolutional,
    cove,
    data2vec_text,
    deit,
    distilbert,
    electra,
    elmo,
    gpt,
    gpt2,
    linformer,
    longformer,
    lstm,
    marian,
    reformer,
    roberta,
    seq2seq,
    t5,
    transformer,
    transformer_xl,
    vit,
    wav2vec2,
    xlm_roberta,
)

READERS: dict[str, ModuleType] = {  # model_type in a config.json, others' or ours -> its family's PRESETS and FAMILY
    "bert": bert,
    "roberta": roberta,
    "xlm-roberta": xlm_roberta,
    "camembert": camembert,
    "data2vec-text": data2vec_text,
    "distilbert": distilbert,
    "albert": albert,
    "electra": electra,
    "longformer": longformer,
    "linformer": linformer,
    "reformer": reformer,
    "openai-gpt": gpt,
    "gpt2": gpt2,
    "transformer-xl": transformer_xl,
    "bigram": bigram,
    "lstm": lstm,
    "elmo": elmo,
    "context2vec": context2vec,
    "cove": cove,
}

SEERS: dict[str, ModuleType] = {"vit": vit, "deit": deit, "convolutional": convolutional}  # the same of pictures
HEARERS: dict[str, ModuleType] = {"wav2vec2": wav2vec2}  # and of sound

PUBLISHED_TRANSLATORS = {"marian": marian.load, "t5": t5.load}  # the same of models that translate

FAMILIES = {  # model_type in config.json -> config and module; a config is of the first that fits
    "seq2seq": (seq2seq.Seq2SeqConfig, seq2seq.Seq2Seq),
    "t5": (t5.T5Config, t5.T5),
    "transformer": (transformer.TransformerConfig, transformer.Transformer),
}

TRANSLATORS = seq2seq.PRESETS | transformer.PRESETS | t5.PRESETS
ENCODERS = {preset: config for file in READERS.values() for preset, config in file.PRESETS.items()}
VISION = {preset: config for file in SEERS.values() for preset, config in file.PRESETS.items()}
SOUND = {preset: config for file in HEARERS.values() for preset, config in file.PRESETS.items()}
PRESETS = TRANSLATORS | ENCODERS | VISION | SOUND
PUBLISHED = {family: file.FAMILY for family, file in (READERS | SEERS | HEARERS).items()}


def family_of(preset: str) -> str:
    """The model_type of a preset that reads."""
    return next(family for family, file in (READERS | SEERS | HEARERS).items() if preset in file.PRESETS)
