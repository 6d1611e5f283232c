"""What every vocabulary can do: ids for text, text for ids, and the ids that have a part to play."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count, takewhile

from regard.errors import Problem

UNKNOWNS = ("<unk>", "[UNK]")
BEGINS = ("<s>", "[CLS]", "<bos>", "<|endoftext|>")
ENDS = ("</s>", "[SEP]", "<eos>", "<|endoftext|>")
MASKS = ("<mask>", "[MASK]")
PADS = ("<pad>", "[PAD]")
ROLES = {  # by what they are called in a tokenizer_config.json
    "unk_token": UNKNOWNS,
    "bos_token": BEGINS,
    "eos_token": ENDS,
    "cls_token": BEGINS,
    "sep_token": ENDS,
    "mask_token": MASKS,
    "pad_token": PADS,
}
SPACE = "▁"
SENTINEL = "<extra_id_{}>"
HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs


class Vocabulary(ABC):
    """Ids are 0 to size - 1.  Text that spells a special token is text, and encoding adds no special tokens."""

    size: int

    @abstractmethod
    def special(self, name: str) -> int | None:
        """The id of a special token, if there is one of that name."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; half a surrogate pair, which is no character, is read as U+FFFD."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without beginnings and ends; what was unknown is shown as such."""

    @abstractmethod
    def piece(self, id: int) -> str:
        """The piece as it can be printed.  Whatever the kind, ▁ stands for a space before it, and a control
        character is escaped; bytes that are only part of a character are �."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What to write into a model's folder, so that others read the same vocabulary there."""

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.decode(row) for row in rows]

    def pieces(self, text: str) -> list[str]:
        return [self.piece(id) for id in self.encode(text)]

    @cached_property
    def begin(self) -> int:
        return self.needed((*BEGINS, *PADS), "beginning")  # T5 has none, and begins to write from its padding

    @cached_property
    def end(self) -> int:
        return self.needed(ENDS, "end")

    @cached_property
    def unknown(self) -> int:
        return self.needed(UNKNOWNS, "unknown pieces")

    @cached_property
    def mask(self) -> int:
        return self.needed(MASKS, "hidden pieces")

    @cached_property
    def sentinels(self) -> list[int]:
        """What stands for the spans that a text leaves out, first to last (T5).  The ids count down in most files."""
        found = (self.special(SENTINEL.format(number)) for number in count())
        ids = [id for id in takewhile(lambda id: id is not None, found) if id is not None]
        if not ids:
            raise Problem(f"the tokenizer has no token for a span: {SENTINEL.format(0)} is not in its vocabulary")
        return ids

    @cached_property
    def pad(self) -> int | None:
        """Nothing here pads, but published configs name it."""
        return next((id for name in PADS if (id := self.special(name)) is not None), None)

    def needed(self, names: Sequence[str], what: str) -> int:
        """The id of the first of these special tokens that there is."""
        for name in names:
            if (id := self.special(name)) is not None:
                return id
        raise Problem(f"the tokenizer has no token for {what}: none of {' '.join(names)} is in its vocabulary")

    def check(self, ids: Iterable[int]) -> None:
        if others := [id for id in ids if not 0 <= id < self.size]:
            raise Problem(f"id {others[0]} is not in the vocabulary, whose ids are 0 to {self.size - 1}")


def unknown_ids(vocabulary: Vocabulary) -> list[int]:
    """What text is read as for which the vocabulary has nothing; none where it spells everything."""
    return [id for name in UNKNOWNS if (id := vocabulary.special(name)) is not None]


def whole(text: str) -> str:
    return HALVES.sub("\ufffd", text)


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
