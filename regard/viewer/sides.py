"""The tokens of a text as they are shown: how each piece is written, and which pieces are one word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from regard.text.vocabulary import SPACE

MARKERS = (SPACE, "Ġ", "##")  # before a piece: two for a space, one for none
BLANKS = {" ": "␣", "\n": "⏎", "\\n": "⏎", "\t": "⇥", "\\t": "⇥"}  # a piece of nothing else, and escaped ones


@dataclass(frozen=True)
class Side:
    """A text as a model reads it."""

    pieces: list[str]
    special: list[bool]
    whole: bool = False  # each piece is a word
    energy: list[float] | None = None  # of sound: how loud each piece is, the loudest 1

    @classmethod
    def of(cls, pieces: Sequence[str], special: Collection[int] = ()) -> Side:
        """Pieces, of which those at these places are special."""
        return cls(list(pieces), [place in special for place in range(len(pieces))])

    @classmethod
    def of_anybody(cls, tokens: Sequence[str]) -> Side:
        """Tokens of which nothing is known: words, unless some have the marks of pieces."""
        return cls(list(tokens), [False] * len(tokens), whole=not any(token.startswith(MARKERS) for token in tokens))

    def header(self) -> dict[str, Any]:
        shown = [
            piece if special else shown_as(piece) for piece, special in zip(self.pieces, self.special, strict=True)
        ]
        told = {"pieces": self.pieces, "shown": shown, "words": self.words(), "special": self.special}
        return told if self.energy is None else {**told, "energy": self.energy}

    def words(self) -> list[int]:
        """The number of the word that each piece belongs to."""
        if self.whole:
            return list(range(len(self.pieces)))
        numbers: list[int] = []
        for place, piece in enumerate(self.pieces):
            goes_on = place > 0 and not self.special[place] and not self.special[place - 1]
            goes_on = goes_on and continues(self.pieces[place - 1], piece)
            numbers.append(numbers[-1] + (not goes_on) if numbers else 0)
        return numbers


def continues(before: str, piece: str) -> bool:
    """Does a piece go on with the word of the one before it?  It begins with a letter, a mark, a digit, or with bytes
    of one, and no space stands between them: one that stands alone begins the word that follows."""
    if piece.startswith("##") and len(piece) > 2:
        return True
    if piece.startswith(MARKERS) or (before.endswith(SPACE) and before != SPACE):
        return False
    return is_word(piece[:1]) and (before in MARKERS or is_word(before[-1:]))


def is_word(character: str) -> bool:
    return character == "\ufffd" or (character != "" and category(character)[0] in "LMN")


def shown_as(piece: str) -> str:
    """A piece without the marks of its kind; one that is nothing else shows that it is a space."""
    bare = piece.removeprefix("##")
    bare = bare.replace("Ġ", SPACE).replace("Ċ", "\\n").strip(SPACE).replace(SPACE, " ")
    if not bare.strip():
        return BLANKS[" "] * max(len(piece), 1)
    for blank, sign in list(BLANKS.items())[1:]:
        bare = bare.replace(blank, sign)
    return bare
