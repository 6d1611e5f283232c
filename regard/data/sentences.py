"""A paragraph cut into sentences, by a rule simple enough for text of any size."""

from __future__ import annotations

import re
from itertools import pairwise

# An end mark, quotes and brackets that close, space (Chinese and Japanese marks need none), and what comes next.
# No two neighbours that repeat can match the same character, so that time is linear in the text.
END = re.compile(r"""(?:[.!?…؟।]["'”’»)\]]*(?=\s)|[。！？]["”」』）]*)(?=\s*(\S))""")
OPENING = frozenset("\"'“‘«([¿¡「『（")  # may begin a sentence, beside a digit, a capital letter or one without case
SHORT = re.compile(r"\b(?:[A-HJ-Z]|Mr|Mrs|Ms|Dr|St|Prof|Rev|Hon|Gen|Col|Capt|Lt|Sgt|vs)\.$")  # ends no sentence
LOOK = 6  # characters up to an end mark in which SHORT is looked for
LONGEST = 2**16  # characters of a sentence; a longer one is cut anywhere, so that encoding it takes little memory


def sentences(paragraph: str) -> list[str]:
    """The parts of a paragraph, which together are the paragraph: space between sentences begins the later one."""
    ends = (found.end() for found in END.finditer(paragraph) if _begins(found[1]) and not _is_short(found))
    cuts = pairwise([0, *ends, len(paragraph)])
    return [paragraph[at : min(at + LONGEST, end)] for start, end in cuts for at in range(start, end, LONGEST)]


def _begins(character: str) -> bool:
    return character in OPENING or character.isdigit() or (character.isalpha() and not character.islower())


def _is_short(found: re.Match[str]) -> bool:
    return SHORT.search(found.string[max(0, found.end() - LOOK) : found.end()]) is not None
