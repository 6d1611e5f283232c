"""What word vectors are scored on: pairs of words with how similar people find them, and analogies by section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import read_lines
from regard.errors import Problem

Analogy = tuple[str, str, str, str]  # the second is to the first as the fourth is to the third


@dataclass(frozen=True)
class Pair:
    one: str
    other: str
    similarity: float  # in the eyes of people


def read_pairs(path: str | Path) -> list[Pair]:
    """Two words and a number a line, with tabs between; a line that begins with # is a comment (WordSim-353, SimLex-999
    as they are usually given)."""
    lines = ((number, line) for number, line in enumerate(read_lines(path), 1) if line.strip() and line[0] != "#")
    found = [_pair(line, f"{path}, line {number}") for number, line in lines]
    if not found:
        raise Problem(f"{path} has no pair of words. Give a file of lines such as: tiger<tab>cat<tab>7.35")
    return found


def read_analogies(path: str | Path) -> dict[str, list[Analogy]]:
    """Four words a line, after lines `: section` (Google's questions-words.txt)."""
    sections: dict[str, list[Analogy]] = {}
    section: list[Analogy] = sections.setdefault("", [])
    for number, line in enumerate(read_lines(path), 1):
        if line.startswith(":"):
            section = sections.setdefault(line[1:].strip(), [])
        elif words := line.split():
            if len(words) != 4:
                raise Problem(f"{path}, line {number}: an analogy has four words, and there are {len(words)}. Mend it.")
            section.append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise Problem(f"{path} has no analogy. Give a file of lines such as: Athens Greece Baghdad Iraq")
    return {name: asked for name, asked in sections.items() if asked}


def _pair(line: str, place: str) -> Pair:
    try:
        one, other, similarity = line.split("\t")[:3]
        return Pair(one.strip(), other.strip(), float(similarity))
    except ValueError:
        raise Problem(f"{place}: {line[:60]!r} is not two words and a number, with tabs between. Mend it.") from None
