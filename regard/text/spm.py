"""SentencePiece's model files, read without it: the little of protocol buffers that they need."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import Problem
from regard.text.files import AGAIN, read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # kinds of pieces; others are bytes, or not in use
UNIGRAM = 1  # the kind of model
WIDTHS = {1: 8, 5: 4}  # bytes of a value, by the low bits of its field's key; 0 is a varint, 2 has its length before it


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePiece:
    """What a model file says of its pieces."""

    pieces: list[Piece]
    unknown: int  # the id of what is no piece
    charsmap: bytes  # how characters are normalized
    usual: bool  # unigram pieces, none of bytes; one space between words, and one before the first

    @classmethod
    def load(cls, path: Path) -> SentencePiece:
        data = read_bytes(path)
        try:
            return cls.parse(data)
        except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
            raise Problem(f"{path} is no SentencePiece model ({error}). {AGAIN}") from error

    @classmethod
    def parse(cls, data: bytes) -> SentencePiece:
        parts = list(fields(data))
        pieces = [piece(dict(fields(part))) for number, part in parts if number == 1]
        trainer, normalizer = (dict(fields(dict(parts).get(number, b""))) for number in (2, 3))
        one_space = all(normalizer.get(number, True) for number in (3, 4, 5))
        usual = trainer.get(3, UNIGRAM) == UNIGRAM and not trainer.get(35) and one_space
        unknown = [one.kind for one in pieces].index(UNKNOWN)
        return cls(pieces, unknown, normalizer.get(2, b""), usual)


def piece(content: dict[int, Any]) -> Piece:
    (score,) = struct.unpack("<f", content.get(2, bytes(4)))
    return Piece(content[1].decode(), score, content.get(3, NORMAL))


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number and value, an int or bytes."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
            yield key >> 3, value
        else:
            length, at = varint(message, at) if key & 7 == 2 else (WIDTHS[key & 7], at)
            yield key >> 3, message[at : at + length]
            at += length
    if at > len(message):
        raise ValueError("it ends too early")


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits a byte, and where it ends."""
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number has no end")
