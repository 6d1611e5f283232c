"""What a tokenizer.json from elsewhere may do to a text.  A file can ask for work without end, in normalizers that
multiply a text and in regular expressions that backtrack, and the library that runs it cannot be interrupted."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from math import prod
from typing import Any

from regard.errors import Problem
from regard.text.kinds import TREEBANK

MAX_GROWTH = 1024  # characters that normalizers may make of one; NFKC makes 18 of U+FDFA
MAX_WORD = 10_000  # characters of a word that WordPiece may look through, in quadratic time
MAX_FRAME = 256  # special tokens around a text
PARTS = ("normalizer", "pre_tokenizer", "decoder")
UNBOUNDED = re.compile(r"[*+]|\{\d+,(\d{2,})?\}")  # a quantifier that lets something repeat ten times and more
ESCAPED = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)  # an escape, or a class of characters


def check_tokenizer(content: Any, name: str) -> None:
    """Refuse a tokenizer.json whose parts may not come to an end on a text of ordinary length."""
    if not isinstance(content, dict):
        return  # the library says what is wrong with it
    for part in PARTS:
        steps = list(steps_of(content.get(part)))
        growth = prod(map(growth_of, steps))
        if growth > MAX_GROWTH:
            raise Problem(f"{name}: its {part} may make {growth:,} characters of one; {MAX_GROWTH} are allowed")
        for pattern in filter(None, map(regex_of, steps)):
            if pattern != TREEBANK and backtracks(pattern):  # ours has nothing behind its groups, and never fails
                raise Problem(f"{name}: the regular expression {pattern[:80]!r} repeats what itself repeats or chooses")
    model, frame = content.get("model"), content.get("post_processor")
    longest = model.get("max_input_chars_per_word") if isinstance(model, dict) else None
    if isinstance(longest, int) and longest > MAX_WORD:
        raise Problem(f"{name}: max_input_chars_per_word is {longest:,}; {MAX_WORD:,} are allowed")
    for processor in steps_of(frame):
        if any(len(processor.get(key) or ()) > MAX_FRAME for key in ("single", "pair")):
            raise Problem(f"{name}: its post_processor puts more than {MAX_FRAME} tokens around a text")


def steps_of(part: Any) -> Iterator[dict[str, Any]]:
    """The parts of a part, where it is a sequence, however deep."""
    if not isinstance(part, dict):
        return
    inner = [one for key in ("normalizers", "pretokenizers", "decoders", "processors") for one in part.get(key) or ()]
    for one in inner:
        yield from steps_of(one)
    if not inner:
        yield part


def growth_of(step: dict[str, Any]) -> int:
    """How many characters a step may make of one."""
    match step.get("type"):
        case "Replace":
            pattern = step.get("pattern")
            plain = pattern.get("String") if isinstance(pattern, dict) else None
            made, taken = len(step.get("content") or ""), max(len(plain or ""), 1)
            return max(-(-made // taken) + (not plain), 1)  # an expression may match nothing, between two characters
        case "Prepend":
            return 1 + len(step.get("prepend") or "")  # of a text of one character
        case "Precompiled":
            return longest_replacement(step.get("precompiled_charsmap"))
        case "NFKC" | "NFKD" | "Nmt" | "BertNormalizer":
            return 2  # few characters have long compatibility forms: those do not multiply
    return 1


def longest_replacement(charsmap: Any) -> int:
    """Bytes of the longest text that SentencePiece's table of characters puts in the place of one."""
    try:
        table = base64.b64decode(charsmap or "")
    except (ValueError, TypeError):
        return 1  # the library says what is wrong with it
    strings = table[4 + int.from_bytes(table[:4], "little") :]
    return max(*map(len, strings.split(b"\0")), 1)


def regex_of(step: dict[str, Any]) -> str | None:
    pattern = step.get("pattern")
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    return found if isinstance(found, str) else None


def backtracks(pattern: str) -> bool:
    """Whether a group that repeats or chooses is itself repeated: then a text may be cut in exponentially many ways."""
    plain = ESCAPED.sub("c", pattern)
    open_groups: list[bool] = []  # for each, whether it repeats or chooses
    for place, character in enumerate(plain):
        if character == "(":
            open_groups.append(False)
        elif character == ")" and open_groups:
            ambiguous = open_groups.pop()
            repeated = UNBOUNDED.match(plain, place + 1) is not None
            if ambiguous and repeated:
                return True
            if open_groups:
                open_groups[-1] |= ambiguous or repeated
        elif open_groups and (character == "|" or UNBOUNDED.match(plain, place)):
            open_groups[-1] = True
    return False
