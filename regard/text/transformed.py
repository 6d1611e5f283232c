"""Texts as a language model is given them for a task (Radford et al., 2018): <start> a <extract>, and of two texts
<start> a <delimiter> b <extract>.  The three tokens are new to its vocabulary, and are learned with the task."""

from __future__ import annotations

import json

import tokenizers

from regard.text.tokenizer import SETTINGS, Tokenizer, framed
from regard.text.vocabulary import ENDS, UNKNOWNS

START, DELIMITER, EXTRACT = TOKENS = ("<start>", "<delimiter>", "<extract>")


def transformed(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary with these tokens behind its others, in whose frame every text stands from now on."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    inner.add_special_tokens(list(TOKENS))
    pair = f"{START} $A {DELIMITER} $B {EXTRACT}"
    inner.post_processor = framed(inner, f"{START} $A {EXTRACT}", pair)
    settings = json.loads(tokenizer.files()[SETTINGS])
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # GPT-2's own would be built anew without the frame
    if (padding := padding_of(tokenizer)) is not None:
        settings["pad_token"] = padding
    return Tokenizer.from_json(inner.to_str(), settings=settings)


def padding_of(tokenizer: Tokenizer) -> str | None:
    """What others may pad with: they take the last token that is another for the one to score."""
    return next((name for name in (*ENDS, *UNKNOWNS) if tokenizer.special(name) is not None), None)
