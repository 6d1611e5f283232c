"""How a text, or a pair of texts, becomes the row that a model reads: [CLS] a [SEP] b [SEP], or, of a language model
that is fine-tuned, <start> a <delimiter> b <extract>."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UsageProblem

Ids = Sequence[int]


@dataclass(frozen=True)
class Frame:
    """The special tokens around one text or two."""

    first: tuple[int, ...]
    between: tuple[int, ...]
    last: tuple[int, ...]
    segments: bool  # is the second text, with what ends it, told from the first?
    blank: tuple[int, ...] = ()  # what is read where there is no token at all, neither of a text nor around it

    def row(self, a: Ids, b: Ids | None = None, longest: int | None = None) -> tuple[list[int], list[int]]:
        """The ids of a row, and the segment of each: 0 or 1.  What is too long loses its end."""
        if longest is not None:
            a, b = self.cut(a, b, longest)
        head, tail = [*self.first, *a], [*self.last]
        if b is not None:
            head, tail = [*head, *self.between], [*b, *tail]
        second = int(self.segments and b is not None)
        if not head + tail:
            head = [*self.blank]
        return head + tail, [0] * len(head) + [second] * len(tail)

    def rows(self, texts: Sequence[Ids], longest: int) -> list[list[int]]:
        """The ids of rows of one text each, all of which are the first segment."""
        room = len(self.cut(range(longest), None, longest)[0])
        first, last = [*self.first], [*self.last]
        return [[*first, *text[:room], *last] or [*self.blank] for text in texts]

    def around(self, texts: int = 1) -> int:
        """How many special tokens stand around one text, or two."""
        return len(self.first) + len(self.last) + (texts - 1) * len(self.between)

    def cut(self, a: Ids, b: Ids | None, longest: int) -> tuple[Ids, Ids | None]:
        """As much of the texts as a row of `longest` can hold; of a pair, the longer loses first."""
        room = longest - self.around(1 if b is None else 2)
        if room < 0:
            raise UsageProblem(f"a row of {longest} cannot hold its special tokens; ask for {longest - room} or more")
        if b is None:
            return a[:room], None
        short = min(len(a), len(b), room // 2)
        for_a, for_b = (short, room - short) if len(a) <= len(b) else (room - short, short)
        return a[:for_a], b[:for_b]
