"""tokenizer: learn a vocabulary from text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.text.tokenizer import Tokenizer


def tokenizer(
    kind: str,
    texts: Sequence[str | Path],
    *,
    vocab: int = 8000,
    lowercase: bool = False,
    out: str | Path | None = None,
    encoding: str = "utf-8",
) -> Tokenizer:
    """Train a tokenizer of a kind (bpe, byte-bpe, wordpiece, unigram, words, characters) on text files.  That of bytes
    is GPT-2's, with its one special token."""
    from regard.data.lines import read_lines
    from regard.text.tokenizer import GPT, SPECIAL, Tokenizer

    lines = chain.from_iterable(read_lines(path, encoding) for path in texts)
    special = GPT if kind == "byte-bpe" else SPECIAL
    trained = Tokenizer.train(kind, lines, vocab, lowercase=lowercase, special=special)
    if out is not None:
        trained.save(Path(out))
    return trained
