"""Every family that can be looked at, tiny, with numbers large enough that a difference would show."""

from __future__ import annotations

from typing import Any

from loud_models import loud

from regard.config import change
from regard.models import ENCODERS, FAMILIES, TRANSLATORS, family_of, marian
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.tasks.cove import cove
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.tokenizer import ENCODER, GPT, ROBERTA, SPECIAL, T5, Tokenizer

LINES = ["the cat sat on the mat", "a dog sat and the cat sat too", "the mat and the dog", "sat mat cat dog on a mat"]
TEXT = "the cat sat on a mat"
VOCAB = 40

WORDS = Tokenizer.train("words", LINES, VOCAB, special=ENCODER)
PIECES = Tokenizer.train("wordpiece", LINES * 3, 37, special=ENCODER)
BYTES = Tokenizer.train("byte-bpe", LINES * 3, 270, special=GPT)
ROBERTAS = Tokenizer.train("byte-bpe", LINES * 3, 270, special=ROBERTA)
BOTH = Tokenizer.train("bpe", LINES * 3, 35, special=SPECIAL)
T5S = Tokenizer.train("unigram", LINES * 3, 117, special=T5)

STACK = {"width": 16, "inner": 24, "attention.heads": 2, "attention.size": 6}
SIZES: dict[str, Any] = {
    "rank": 4,
    "windows": (4,),
    "kinds": ("local", "lsh", "lsh"),
    "local.size": 4,
    "lsh.size": 3,
    "rounds": 2,
    "axes": (4, 6),
    "axis_widths": (6, 10),
    "embedding.width": 16,
    "embedding.longest": 24,
    "embedding.filters": (4, 6),
    "memory": 30,
    "recurrent.width": 20,
    "recurrent.last": 16,
    "recurrent.layers": 2,
    **{f"{where}.block.{path}": size for where in ("stack", "encoder", "decoder") for path, size in STACK.items()},
    **{f"{where}.layers": 2 for where in ("encoder", "decoder")},
    **{f"{where}.width": 16 for where in ("encoder", "decoder")},
    "stack.layers": 3,
}


def has(config: Any, path: str) -> bool:
    name, _, rest = path.partition(".")
    return hasattr(config, name) and (not rest or has(getattr(config, name), rest))


def tiny(config: Any, vocab: int) -> Any:
    narrow = has(config, "stack") and config.embedding.width != config.stack.block.width
    whole = has(config, "recurrent") and config.recurrent.residual
    changes = SIZES | {"embedding.vocab": vocab} | ({"embedding.width": 8} if narrow else {})
    changes |= {"recurrent.width": 16, "recurrent.cells": 24} if whole else {}
    for path, value in changes.items():
        config = change(config, path, value) if has(config, path) else config
    return config


def tokenizer_of(family: str) -> Tokenizer:
    if family in ("elmo", "context2vec"):
        return WORDS
    if family in ("roberta", "longformer"):
        return ROBERTAS
    return PIECES if family in ("bert", "distilbert", "albert", "electra", "linformer") else BYTES


ROLES = {"lstm": "write", "elmo": "write", "gpt2": "write", "openai-gpt": "write", "transformer-xl": "write"}
ROLES |= {"reformer": "write", "longformer": "masked", "linformer": "masked"}
ROLES |= dict.fromkeys(("bert", "roberta", "distilbert", "albert", "electra", "context2vec"), "masked")


def reader(preset: str, role: str | None = None) -> Reader:
    """What a preset reads with: a Writer where it is a language model."""
    family = family_of(preset)
    tokenizer, role = tokenizer_of(family), role or ROLES[family]
    published = new_encoder(family, tiny(ENCODERS[preset], tokenizer.size), {role})
    loud(published.model)
    return (Writer if role == "write" else Reader)(published, tokenizer)


def translator(preset: str) -> Translator:
    if preset == "marian":
        return Translator(loud(marian.Marian(tiny(marian.SILENT, BOTH.size))), BOTH, BOTH)
    tokenizer = T5S if preset.startswith("t5") else BOTH
    config = tiny(TRANSLATORS[preset], tokenizer.size)
    kind = next(module for of, module in FAMILIES.values() if isinstance(config, of))
    return Translator.of(loud(kind(config)), tokenizer, tokenizer)


def cove_reader() -> Reader:
    model = loud(Seq2Seq(seq2seq("dot", width=16, layers=2, vocab=BOTH.size)))
    return cove(Translator(model, BOTH, BOTH))


def reads_forward(config: Any) -> bool:
    return getattr(config, "way", "forward") == "forward"


def different(presets: dict[str, Any]) -> list[str]:
    """Those that differ in more than their size."""
    return list({tiny(config, VOCAB): name for name, config in presets.items() if name != "bigram"}.values())


RECURRENT = {"lstm", "elmo", "context2vec"}
READ, TRANSLATED = different(ENCODERS), [*different(TRANSLATORS), "marian"]
WRITTEN = [name for name in READ if ROLES[family_of(name)] == "write" and reads_forward(ENCODERS[name])]
LOOKED = [name for name in READ if family_of(name) not in RECURRENT]  # those with attention
LOOKED_BACK = [name for name in TRANSLATED if name != "rnn"]  # all but the bottleneck
