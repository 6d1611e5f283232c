"""Whole words that are read by their characters: one outside the vocabulary has an id beyond it, and is spelled too."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from regard.errors import UsageProblem
from regard.layers.characters import special_spelling, spelled_words
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import SPACE, printable, whole


class Spelled:
    """A vocabulary of words without end.  Ids that are not the tokenizer's hold as long as this does, and are for
    reading alone: what is kept in files has the tokenizer's."""

    def __init__(self, tokenizer: Tokenizer, longest: int):
        vocabulary = json.loads(tokenizer.to_json())["model"]
        if vocabulary["type"] != "WordLevel":
            raise UsageProblem("words are read by their characters: give a vocabulary of the kind words")
        self.tokenizer, self.longest, self.size, self.frame = tokenizer, longest, tokenizer.size, tokenizer.frame
        known = {id: word for word, id in vocabulary["vocab"].items()}
        self._codes = spelled_words([known.get(id, "") for id in range(self.size)], longest)
        for number, id in enumerate(tokenizer.specials):
            self._codes[id] = special_spelling(number, longest)
        self._ids: dict[str, int] = {}  # of words outside the vocabulary that were met
        self._words: list[str] = []  # and these

    def table(self) -> np.ndarray:  # (words, longest)
        """How every word is spelled that has an id."""
        if new := self._words[len(self._codes) - self.size :]:
            self._codes = np.concatenate([self._codes, spelled_words(new, self.longest)])
        return self._codes

    def encode(self, text: str, allow: Sequence[str] = ()) -> list[int]:
        if allow:
            return self.tokenizer.encode(text, allow)
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        texts = [whole(text) for text in texts]
        found = self.tokenizer.encode_spans_batch(texts)
        return [
            self._opened(ids, [text[start:end] for start, end in spans])
            for text, (ids, spans) in zip(texts, found, strict=True)
        ]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """As a Tokenizer does; what has a space inside is two words."""
        found = self.encode_batch(words)
        return [id for row in found for id in row], [number for number, row in enumerate(found) for _ in row]

    def piece(self, id: int) -> str:
        if id < self.size:
            return self.tokenizer.piece(id)
        return printable(SPACE + self._words[id - self.size])

    def _opened(self, ids: list[int], words: list[str]) -> list[int]:
        """Ids of their own for words that the vocabulary lacks, but for text that was given with them left out."""
        unknown, special = self.tokenizer.unknown, self.tokenizer.special
        pairs = zip(ids, words, strict=True)
        return [self._id(word) if id == unknown and special(word) is None else id for id, word in pairs]

    def _id(self, word: str) -> int:
        word = self.tokenizer.normalized(word)
        if word not in self._ids:
            self._ids[word] = self.size + len(self._words)
            self._words.append(word)
        return self._ids[word]
