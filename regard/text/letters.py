"""The letters that a model of sound writes, in the files that others know: vocab.json and what lies beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import Problem
from regard.text.files import read_bytes, read_ids, read_object

VOCAB, SETTINGS = "vocab.json", "tokenizer_config.json"
OTHERS = (SETTINGS, "special_tokens_map.json", "added_tokens.json")
BLANK, BEGIN, END, UNKNOWN, SPACE = SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "|")
KIND = {"tokenizer_class": "Wav2Vec2CTCTokenizer", "word_delimiter_token": SPACE, "do_lower_case": False}
NAMES = {"pad_token": BLANK, "bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}


@dataclass(frozen=True)
class Letters:
    """Letters and their ids; one of them is the blank, which says that nothing new was spoken, and one the space."""

    ids: Mapping[str, int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, bytes] = field(default_factory=dict)  # the files it came from, as they were

    @classmethod
    def learned(cls, texts: Iterable[str]) -> Letters:
        """All letters of texts."""
        found = sorted({letter for text in texts for letter in text if not letter.isspace()} - {SPACE})
        if not found:
            raise Problem("the transcripts have no letters to learn; give some")
        return cls({letter: id for id, letter in enumerate([*SPECIAL, *found])}, KIND | NAMES)

    @classmethod
    def load(cls, folder: Path) -> Letters | None:
        """Those of a folder, if it has any: a model that was only pretrained writes nothing."""
        if not (folder / VOCAB).is_file():
            return None
        there = [name for name in OTHERS if (folder / name).is_file()]
        settings = read_object(folder / SETTINGS) if SETTINGS in there else {}
        kept = {name: read_bytes(folder / name) for name in (VOCAB, *there)}
        letters = cls(read_ids(folder / VOCAB), settings, kept)
        for name in ("pad_token", "word_delimiter_token"):
            if letters.named(name) not in letters.ids:
                raise Problem(
                    f"{folder / VOCAB} lacks {letters.named(name)!r}, its {name}: it is of another kind of model"
                )
        return letters

    def files(self) -> dict[str, bytes]:
        if self.kept:
            return dict(self.kept)
        told = {VOCAB: dict(self.ids), SETTINGS: dict(self.settings)}
        return {name: (json.dumps(one, indent=2, ensure_ascii=False) + "\n").encode() for name, one in told.items()}

    def named(self, name: str) -> str:
        """What a special token is called: a text, or an object that has one."""
        said = self.settings.get(name) or {**NAMES, "word_delimiter_token": SPACE}[name]
        return str(said.get("content", "") if isinstance(said, dict) else said)

    @cached_property
    def blank(self) -> int:
        return self.ids[self.named("pad_token")]

    @cached_property
    def space(self) -> int:
        return self.ids[self.named("word_delimiter_token")]

    @cached_property
    def shown(self) -> dict[int, str]:
        """How each id is written; special ones are not."""
        special = {self.named(name) for name in NAMES}
        told = {id: "" if letter in special else letter for letter, id in self.ids.items()}
        return told | {self.space: " "}

    @property
    def size(self) -> int:
        return max(self.ids.values()) + 1

    def encode(self, text: str) -> tuple[list[int], int]:
        """The ids of a text's letters, words parted by one space; and how many letters are not known, and left out."""
        letters = self.cased(" ".join(text.split()))
        ids = [self.space if letter == " " else self.ids.get(letter) for letter in letters]
        return [id for id in ids if id is not None], ids.count(None)

    def cased(self, text: str) -> str:
        """A text in the case that the letters have, where they have but one."""
        plain = "".join(letter for letter in self.ids if len(letter) == 1)
        if plain == plain.upper() != plain.lower():
            return text.upper()
        return text.lower() if plain == plain.lower() != plain.upper() else text

    def decode(self, ids: Sequence[int]) -> str:
        """The text that letters spell, blanks and repetitions taken out already."""
        text = " ".join("".join(self.shown.get(id, "") for id in ids).split())
        return text.lower() if self.settings.get("do_lower_case") else text
