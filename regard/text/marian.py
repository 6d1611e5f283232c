"""The vocabularies of Marian's translators (opus-mt): SentencePiece cuts the text, vocab.json numbers the pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import Problem
from regard.text.files import AGAIN, read_bytes, read_ids
from regard.text.vocabulary import ENDS, PADS, SPACE, Vocabulary, printable, whole

BESIDE = ("tokenizer_config.json", "special_tokens_map.json")  # for others to read again
LANGUAGE = re.compile(">>.*?<<", re.DOTALL)  # before a text, the language to translate it into


class Marian(Vocabulary):
    """One side of a translator.  What it writes begins with the padding token."""

    def __init__(self, model: Path, ids: Path):
        beside = [model.with_name(name) for name in BESIDE if model.with_name(name).is_file()]
        self._files = {path.name: read_bytes(path) for path in (model, ids, *beside)}
        self._cut = processor(model, self._files[model.name])
        self._ids = read_ids(ids)
        self._names = {id: name for name, id in self._ids.items()}
        self._silent = {*ENDS, *PADS}
        self.size = max(self._names, default=-1) + 1

    def special(self, name: str) -> int | None:
        return self._ids.get(name)

    @cached_property
    def begin(self) -> int:
        return self.needed(PADS, "beginning")

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        parts = [after_language(whole(text)) for text in texts]
        cut = self._cut.encode([rest for _, rest in parts], out_type=int, num_threads=1)  # threads take long to start
        found = zip(parts, cut, strict=True)
        return [[*self.named(before), *self.renumbered(rest, row)] for (before, rest), row in found]

    def decode(self, ids: Sequence[int]) -> str:
        self.check(ids)
        return "".join([self._written.get(id, "") for id in ids]).replace(SPACE, " ").strip()

    def piece(self, id: int) -> str:
        self.check([id])
        return printable(self._names.get(id, ""))

    def files(self) -> dict[str, bytes]:
        return self._files

    def renumbered(self, text: str, row: Sequence[int]) -> list[int]:
        """The ids of a text, from SentencePiece's.  What that does not know may be a piece of the other side."""
        if self._cut.unk_id() in row:
            return self.named(self._cut.encode(text, out_type=str))
        return [self._numbers[id] for id in row]

    def named(self, pieces: Sequence[str]) -> list[int]:
        return [self._known.get(piece, self.unknown) for piece in pieces]

    @cached_property
    def _known(self) -> dict[str, int]:
        """Pieces of a text, which has no ends."""
        return {name: id for name, id in self._ids.items() if name not in self._silent}

    @cached_property
    def _numbers(self) -> list[int]:
        """The id of each piece, by SentencePiece's."""
        return self.named(self._cut.id_to_piece(list(range(self._cut.get_piece_size()))))

    @cached_property
    def _written(self) -> dict[int, str]:
        """What each id adds to a text."""
        return {id: name for id, name in self._names.items() if name not in self._silent}


def after_language(text: str) -> tuple[list[str], str]:
    """The piece that names a language, if there is one, and what follows it."""
    language = LANGUAGE.match(text)
    return ([language[0]], text[language.end() :]) if language else ([], text)


def processor(path: Path, data: bytes) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise Problem(f"{path} can be read only by SentencePiece: pip install 'regard[spm]'") from error
    cut = SentencePieceProcessor()
    try:
        cut.LoadFromSerializedProto(data)
    except RuntimeError as error:
        raise Problem(f"{path} is no SentencePiece model ({error}). {AGAIN}") from error
    return cut
