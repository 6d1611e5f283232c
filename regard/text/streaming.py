"""Text from ids as they are written: handed out as soon as its characters are whole, and up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from regard.text.vocabulary import Vocabulary

CONTEXT = 16  # ids decoded before a new one: what a piece spells can depend on those before it
UNFINISHED = 3  # bytes that a character may lack its end at; each is shown as � until it comes


class Unfolding:
    """What each further id adds to a text.  Bytes that are part of a character wait for the rest of it."""

    def __init__(self, vocabulary: Vocabulary, ids: Sequence[int] = ()):
        self.vocabulary, self.ids = vocabulary, list(ids[-CONTEXT:])
        self.shown = len(vocabulary.decode(self.ids))  # characters that were handed out

    def add(self, id: int) -> str:
        self.ids.append(id)
        text = self.vocabulary.decode(self.ids)
        new = text[self.shown : len(text) - waiting(text)]
        self.shown += len(new)
        if len(self.ids) > 2 * CONTEXT:  # so that a long text takes no longer for an id than a short one
            behind, self.ids = len(text) - self.shown, self.ids[-CONTEXT:]
            self.shown = len(self.vocabulary.decode(self.ids)) - behind
        return new

    def rest(self) -> str:
        """What a character that was never finished leaves: nothing."""
        return ""


class Folded:
    """The same for whoever does not read along: all of it at the end."""

    def __init__(self, vocabulary: Vocabulary, ids: Sequence[int] = ()):
        self.vocabulary, self.ids = vocabulary, list(ids[-CONTEXT:])
        self.before = len(self.ids)

    def add(self, id: int) -> str:
        self.ids.append(id)
        return ""

    def rest(self) -> str:
        before, text = (self.vocabulary.decode(ids) for ids in (self.ids[: self.before], self.ids))
        return text[len(before) : len(text) - waiting(text)]


def waiting(text: str) -> int:
    """How many characters at the end of a text may change when it goes on."""
    return min(len(text) - len(text.rstrip("\ufffd")), UNFINISHED)


class Stops:
    """Text up to the first of some strings, in whatever parts it comes.  What may be the beginning of one waits."""

    def __init__(self, strings: Sequence[str] = ()):
        self.strings = strings
        self.held = ""
        self.found = False

    def add(self, text: str) -> str:
        """What can be handed out now."""
        text = self.held + text
        ends = [(at + len(stop), at) for stop in self.strings if (at := text.find(stop)) >= 0]
        if ends:  # the first to be complete, so that it does not matter in which parts the text came
            self.found, self.held = True, ""
            return text[: min(ends)[1]]
        kept = max((overlap(text, stop) for stop in self.strings), default=0)
        self.held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> str:
        """What waited for a stop string that did not come."""
        held, self.held = self.held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text begin the stop string."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
