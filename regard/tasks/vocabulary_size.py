"""Whether a tokenizer can be the one a model was trained with, by the number of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.errors import Problem

UNUSED_ROWS = "regard_unused_rows"  # a key of config.json: how many rows of the embedding belong to no token
MAX_UNUSED_ROWS = 128  # that need no reason, such as tokens which are in no vocabulary's file
MAX_MULTIPLE = 1024  # to a multiple of which a table may be rounded up, as some are for fast products


def check_vocabulary_size(place: object, tokens: int, rows: int, theirs: Mapping[str, Any] | None = None) -> None:
    """Refuse a tokenizer with more tokens than the embedding has rows, or with fewer than padding explains.

    `theirs` is config.json, which may say that exactly so many rows are unused.
    """
    told = f"{place}: the tokenizer has {tokens} tokens and the embedding of the model {rows} rows"
    if tokens > rows:
        raise Problem(f"{told}: it belongs to another model. Put the model's own tokenizer into the folder.")
    unused = rows - tokens
    if not may_be_padded(tokens, rows) and (theirs or {}).get(UNUSED_ROWS) != unused:
        own = f'if it is the model\'s own, say so in config.json: "{UNUSED_ROWS}": {unused}'
        raise Problem(f"{told}: it belongs to another model. Put the right tokenizer into the folder, or, {own}.")


def may_be_padded(tokens: int, rows: int) -> bool:
    """Whether a table of so many rows is for so many tokens: a few are unused, or their number was rounded up (T5 has
    32,100 tokens and 32,128 rows, GPT-2 often 50,257 and 50,304)."""
    multiple = min(rows & -rows, MAX_MULTIPLE)  # the largest power of two that divides the rows
    return rows - tokens < max(multiple, MAX_UNUSED_ROWS) and 2 * tokens > rows
