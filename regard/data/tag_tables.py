"""Words and their tags from tables: a row for each word, with a column that says which sentence it is in; or lists of
words and of tags in each row."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.columns import Name, column_name, contents_of, plain_name
from regard.data.lines import read_lines
from regard.data.table import Table, parse_json, read_table
from regard.errors import Problem

LOOK = 20  # lines among which the first that is not blank is looked for
TABLES = (".csv", ".jsonl", ".ndjson", ".json", ".parquet")
SENTENCES = "sentence sentence_id sent_id sentence_number sentence_no sentence_idx sentence_num sent"
WORDS = "tokens words token word form text"
TAGS = "tag ner_tag ner_tags tags ner label labels entity bio iob pos pos_tag pos_tags upos upos_tags"
FORMS = (
    "Give a word and its tag on each line with a blank line after a sentence (CoNLL), a table with columns for the "
    "sentence, the word and the tag, or JSON lines with lists of tokens and tags."
)


@dataclass
class TaggedRows:
    """Sentences as a table has them, and where each begins."""

    words: list[list[str]] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    starts: array[int] = field(default_factory=lambda: array("q"))
    columns: str = ""  # which were taken for what
    notes: tuple[str, ...] = ()


def is_tag_table(path: str | Path, encoding: str) -> bool:
    """Whether a file is a table by its name, or begins as one does: with a header that names a column of sentences, or
    with an object of JSON."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix not in (".gz", ".xz")]
    if suffixes and suffixes[-1] in TABLES:
        return True
    first = next((line for line in islice(read_lines(path, encoding), LOOK) if line.strip()), "")
    cells = first.split("\t")
    return first.startswith('{"') or (is_header(cells) and _first(cells, SENTENCES) is not None)


def is_header(cells: list[str]) -> bool:
    """Whether a row names a column of words and one of tags, and is no word with its tag."""
    return len(cells) > 1 and _first(cells, WORDS) is not None and _first(cells, TAGS) is not None


def read_tag_table(path: str | Path, column: Name | None, word: Name | None, encoding: str) -> TaggedRows:
    table = read_table(path, encoding)
    words, tags = _named(table, word, WORDS, "word", "text"), _named(table, column, TAGS, "tag", "label")
    taken = f"word: column {words!r}, tag: column {tags!r}"
    at = table.names.index(words), table.names.index(tags)
    if all(_as_list(table.rows[0][place]) is not None for place in at):
        found = _from_lists(table, *at)
    else:
        sentence = _first([name for name in table.names if name not in (words, tags)], SENTENCES)
        found = _from_words(table, *at, None if sentence is None else table.names.index(sentence))
        taken += f", sentence: column {sentence!r}" if sentence else ""
        if sentence is None and len(found.words) == 1:
            there = ", ".join(table.names)
            raise Problem(f"{table.source}: no column says which sentence a word is in; there are: {there}. {FORMS}")
    found.columns = taken
    return found


def _named(table: Table, said: Name | None, likely: str, role: str, option: str) -> str:
    found = column_name(table, said) if said is not None else _first(table.names, likely)
    if found is None:
        held = "".join(f"\n  {column}" for column in contents_of(table))
        raise Problem(
            f"{table.source}: no column looks like the {role}; there are: {', '.join(table.names)}. Say which it is, "
            f"by name or number (--{option}). {FORMS}{held}"
        )
    return found


def _first(names: Sequence[str], likely: str) -> str | None:
    plain = {plain_name(name): name for name in reversed(names)}
    return next((plain[name] for name in likely.split() if name in plain), None)


def _as_list(cell: str) -> list[Any] | None:
    try:
        found = json.loads(cell) if cell.startswith("[") else None
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def _from_lists(table: Table, word: int, tag: int) -> TaggedRows:
    found, numbers = TaggedRows(), False
    for row, cells in enumerate(table.rows):
        place = table.place(row)
        words, tags = _strings(cells[word], place, "words"), _as_list(cells[tag])
        if tags is None or not all(isinstance(one, str | int) and not isinstance(one, bool) for one in tags):
            raise Problem(f"{place}: {cells[tag][:40]!r} is no list of tags. {FORMS}")
        if len(words) != len(tags):
            raise Problem(f"{place} has {len(words)} words and {len(tags)} tags. Mend it: give a tag for each word.")
        numbers |= any(isinstance(one, int) for one in tags)
        if words:
            found.words.append(words)
            found.tags.append([str(one) for one in tags])
            found.starts.append(table.starts[row])
    if numbers:
        note = "tags are numbers and taken as names as they are: entities cannot be scored; give names such as B-PER"
        found.notes = (f"{table.source}: {note}",)
    return found


def _strings(cell: str, place: str, what: str) -> list[str]:
    values = parse_json(cell, f"{place}: {cell[:40]!r}")
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise Problem(f"{place}: {cell[:40]!r} is no list of {what}, each a text that is not blank. {FORMS}")
    return values


def _from_words(table: Table, word: int, tag: int, sentence: int | None) -> TaggedRows:
    found = TaggedRows()
    for begins, row in _sentence_starts(table, sentence):
        cells = table.rows[row]
        for place, what in ((word, "word"), (tag, "tag")):
            if not cells[place].strip():
                raise Problem(f"{table.place(row)}: the {what}, in column {table.names[place]!r}, is blank. Mend it.")
        if begins:
            found.words.append([])
            found.tags.append([])
            found.starts.append(table.starts[row])
        found.words[-1].append(cells[word].strip())
        found.tags[-1].append(cells[tag].strip())
    return found


def _sentence_starts(table: Table, sentence: int | None) -> Iterator[tuple[bool, int]]:
    """The rows that hold a word, and whether a sentence begins there: where the sentence's cell is filled and differs
    from that of the sentence before; without such a column, after a row or a line that is blank."""
    now, begins, last = "", True, -1
    for row, cells in enumerate(table.rows):
        if not any(cell.strip() for cell in cells):
            begins = True
            continue
        if sentence is not None:
            named = cells[sentence].strip()
            begins = begins or bool(named and named != now)
            now = named or now
        elif table.unit == "line" and last >= 0:
            begins = begins or table.starts[row] > table.starts[last] + 1 + sum(c.count("\n") for c in table.rows[last])
        yield begins, row
        begins, last = False, row
