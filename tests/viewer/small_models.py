"""Small models to look at, with numbers large enough that what they do depends on what they read."""

from __future__ import annotations

from functools import cache

from loud_models import loud

from regard.models.bert import bert
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer
from regard.tasks.finetuned import Finetuned, finetuned
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.text.tokenizer import ENCODER, GPT, Tokenizer

LINES = ["the cat sat on the mat", "a dog sat and the cat sat too", "the mat and the dog", "sat mat cat dog on a mat"]
PIECES = Tokenizer.train("wordpiece", ["the cat sat on the mat and a cat sat", "d o g dog"] * 3, 35, special=ENCODER)
BYTES = Tokenizer.train("byte-bpe", LINES * 3, 270, special=GPT)
BOTH = Tokenizer.train("words", LINES, 20)


def headed(role: str, outputs: int = 2) -> Reader:
    published = new_encoder("bert", bert(3, 16, 2, PIECES.size, longest=24), {role}, outputs)
    loud(published.model)
    return Reader(published, PIECES)


@cache
def bert_reader() -> Reader:
    return headed("masked")


@cache
def gpt_writer() -> Writer:
    published = new_encoder("gpt2", gpt2(2, 16, 2, BYTES.size, longest=48), {"write"})
    loud(published.model)
    return Writer(published, BYTES)


def task_of(reader: Reader) -> Finetuned:
    found = finetuned(reader)
    assert isinstance(found, Finetuned)
    return found


@cache
def sentiment() -> Finetuned:
    reader = headed("classify")
    reader.published.theirs["id2label"] = {"0": "bad", "1": "good"}
    return task_of(reader)


@cache
def tagger() -> Finetuned:
    return task_of(headed("tag", 3))


@cache
def transformer_translator() -> Translator:
    return Translator(loud(Transformer(transformer(2, 16, 2, 24, vocab=BOTH.size))), BOTH, BOTH)


@cache
def recurrent_translator(score: str | None) -> Translator:
    config = seq2seq(score, width=16, layers=2, vocab=BOTH.size)
    return Translator(loud(Seq2Seq(config)), BOTH, BOTH)
