"""Sentences with a tag for each word, from CoNLL columns, CoNLL-U or tables; and the entities that tags spell."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Literal

from regard.config import did_you_mean
from regard.data.lines import read_lines
from regard.data.split import ExampleKey, plain_text
from regard.data.tag_tables import FORMS, TaggedRows, is_header, is_tag_table, read_tag_table
from regard.errors import Problem, UsageProblem

Scheme = Literal["IOB1", "IOB2", "BIOES", "none"]
Row = tuple[int, list[str]]  # the number of a line, and its cells
Entity = tuple[str, int, int]  # its kind, its first word, and the word after its last

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
CONLLU_ROW = re.compile(r"\d+([.-]\d+)?\t(.*\t){8}")
LOOK = 20  # lines in which CoNLL-U shows itself
MAX_SENTENCE_WORDS = 500  # of a file that is one sentence: without an end to any, it is in another form
MAX_TAGS, WORDS_PER_TAG = 200, 20  # more different tags than this, that occur less often, are no tags
SHOWN = 20  # kinds or tags that are named
SPELLED = re.compile(r"([BIESLU])(?:-(.*))?")  # L and U are what BILOU calls E and S
BEGIN, END = "BSU", "ESLU"


@dataclass(frozen=True, eq=False)
class Tagged:
    """Sentences as words and their tags."""

    source: str
    words: list[list[str]]
    tags: list[list[str]]
    starts: array[int]  # the line each sentence begins at
    scheme: Scheme  # "none" where tags spell no entities: parts of speech
    orphans: int  # entities without a proper beginning: an I- or E- that nothing goes before
    columns: str = ""  # of a table, which were taken for what
    notes: tuple[str, ...] = ()  # what a person should know of the file

    def __len__(self) -> int:
        return len(self.words)

    def place(self, sentence: int) -> str:
        return f"{self.source}, sentence at line {self.starts[sentence]}"

    def take(self, numbers: Sequence[int], source: str) -> Tagged:
        """The chosen sentences, in that order."""
        words, tags = ([some[number] for number in numbers] for some in (self.words, self.tags))
        starts = array("q", (self.starts[number] for number in numbers))
        return replace(self, source=source, words=words, tags=tags, starts=starts)

    def example_keys(self) -> list[ExampleKey]:
        """The stratum is the first kind of entity, or where tags spell none, the first tag."""
        return [
            ExampleKey(plain_text(words), " ".join(tags), self._stratum(tags), tuple(tags))
            for words, tags in zip(self.words, self.tags, strict=True)
        ]

    def _stratum(self, tags: Sequence[str]) -> str:
        if self.scheme == "none":
            return tags[0]
        return next((kind for mark, kind in map(_parts, tags) if mark != "O"), "")

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        distinct = set(chain.from_iterable(self.tags))
        kinds = sorted({_parts(tag)[1] for tag in distinct} - {""}) if self.scheme != "none" else sorted(distinct)
        told = f"entities of {len(kinds)} kinds" if self.scheme != "none" else f"{len(kinds)} tags"
        found = [f"{self.source}: {len(self):,} sentences, {sum(map(len, self.words)):,} words; {told}: {_some(kinds)}"]
        found += [self.columns] if self.columns else []
        found += [f"warning: {note}" for note in self.notes]
        if len(distinct) == 1:
            found.append(f"warning: all words have the tag {min(distinct)!r}: nothing can be learned from them")
        if self.orphans:
            found.append(f"warning: {self.orphans:,} entities begin with no B-: they are taken as they stand")
        return found


def read_tagged(
    path: str | Path, column: int | str | None = None, *, word: int | str | None = None, encoding: str = "utf-8"
) -> Tagged:
    """The sentences of a file: CoNLL, CoNLL-U or a table (see `read_tag_table`).  Tags stay as they are.

    In CoNLL there is a word a line, its columns between tabs or spaces, and a blank line after a sentence.  The word is
    the first column and its tag the last, unless numbers from 1 say otherwise.  In CoNLL-U, which is known by its ten
    columns, they are "form" and "upos", and the tag's column may be named."""
    if is_tag_table(path, encoding):
        rows = read_tag_table(path, column, word, encoding)
    else:
        rows = _read_conll(path, column, word, encoding)
    _check_forms(rows, str(path), column is None)
    scheme, orphans = scheme_of(rows.tags, str(path))
    return Tagged(str(path), rows.words, rows.tags, rows.starts, scheme, orphans, rows.columns, rows.notes)


def _read_conll(path: str | Path, column: int | str | None, word: int | str | None, encoding: str) -> TaggedRows:
    lines = read_lines(path, encoding)
    start = list(islice(lines, LOOK))
    conllu = any(CONLLU_ROW.match(line) for line in start)
    found = TaggedRows()
    for full, group in groupby(_rows(chain(start, lines), str(path), conllu), key=lambda row: bool(row[1])):
        if full:
            sentence = list(group)
            last = len(sentence[0][1])
            found.words.append(_column(sentence, 1 + conllu if word is None else word, str(path)))
            found.tags.append(_column(sentence, ("upos" if conllu else last) if column is None else column, str(path)))
            found.starts.append(sentence[0][0])
    return found


def _check_forms(rows: TaggedRows, source: str, inferred: bool) -> None:
    """Refuse what is no file of sentences with tags, though it could be read as one."""
    words, tags = sum(map(len, rows.words)), len(set(chain.from_iterable(rows.tags)))
    if not words:
        raise Problem(f"{source} has no words. {FORMS}")
    if len(rows.words) == 1 and words > MAX_SENTENCE_WORDS:
        raise Problem(f"{source} would be one sentence of {words:,} words with {tags:,} different tags. {FORMS}")
    if inferred and tags > max(MAX_TAGS, words / WORDS_PER_TAG):
        raise Problem(
            f"{source} would have {tags:,} different tags for {words:,} words; name the column of tags (--label). "
            f"{FORMS}"
        )


def entities(tags: Sequence[str]) -> list[Entity]:
    """What the tags of a sentence spell, in any of the schemes, by the rules of conlleval: an I- or E- begins an
    entity too where none of its kind goes before."""
    found: list[Entity] = []
    start, before = None, ("O", "")
    for place, (mark, kind) in enumerate(map(_parts, [*tags, "O"])):
        if start is not None and (mark in BEGIN or mark == "O" or before[0] in END or kind != before[1]):
            found.append((before[1], start, place))
            start = None
        if start is None and mark != "O":
            start = place
        before = mark, kind
    return found


def scheme_of(sentences: Iterable[Sequence[str]], source: str = "tags") -> tuple[Scheme, int]:
    """The scheme of tags, and how many entities begin as it does not allow.  IOB2 and BIOES mark each beginning; IOB1
    only that of an entity which follows another of its kind at once."""
    distinct: set[str] = set()
    orphans = apart = 0
    for tags in sentences:
        distinct.update(tags)
        found = entities(tags)
        ends = {(kind, end) for kind, _, end in found}
        for kind, start, _ in found:
            marked = _parts(tags[start])[0] in BEGIN
            orphans += not marked
            apart += marked and (kind, start) not in ends
    marks = _marks(distinct, source)
    if not marks:
        return "none", 0
    if marks & set(END):
        return "BIOES", orphans
    return ("IOB1", 0) if orphans and not apart else ("IOB2", orphans)


def to_iob2(tagged: Tagged, *, repair: bool = False) -> Tagged:
    """The same entities with a B- at each beginning.  One that should have had a mark there and has none keeps its I-
    unless it is to be repaired."""
    if tagged.scheme == "none":
        return tagged
    mend = repair or tagged.scheme == "IOB1"
    tags = [iob2(sentence, mend) for sentence in tagged.tags]
    return replace(tagged, tags=tags, scheme="IOB2", orphans=0 if mend else tagged.orphans)


def iob2(tags: Sequence[str], repair: bool = True) -> list[str]:
    """The same entities, spelled in IOB2."""
    spelled, found = ["O"] * len(tags), entities(tags)
    ends = {(kind, end) for kind, _, end in found}
    for kind, start, end in found:
        needed = repair or (kind, start) in ends  # or else it would become one with the entity before it
        first = "B" if needed or _parts(tags[start])[0] in BEGIN else "I"
        marks = [first, *"I" * (end - start - 1)]
        spelled[start:end] = [_tag(mark, kind) for mark in marks]
    return spelled


def iob2_tags(tags: Iterable[str]) -> set[str]:
    """All tags that IOB2 has for the kinds that tags name."""
    kinds = {kind for mark, kind in map(_parts, tags) if mark != "O"}
    return {"O", *(_tag(mark, kind) for mark in "BI" for kind in kinds)}


def spells_entities(tags: Iterable[str]) -> bool:
    """Whether tags are those of a scheme for entities."""
    try:
        return bool(_marks(set(tags), "tags"))
    except Problem:
        return False


def _rows(lines: Iterable[str], source: str, conllu: bool) -> Iterator[Row]:
    """The cells of each word with the number of its line; no cells where a sentence ends."""
    width = None
    for number, line in enumerate(lines, 1):
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if number == 1 and is_header(cells):
            continue
        if not line.strip() or cells[0] == "-DOCSTART-":
            yield number, []
        elif conllu and (line.startswith("#") or not cells[0].isdecimal()):
            continue  # a comment, the range of a multiword token, or a word that is not in the text
        elif len(cells) != (width := width or max(len(cells), 2)):
            raise Problem(
                f"{source}, line {number} has {len(cells)} columns where {width} are expected. Mend the line."
            )
        else:
            yield number, cells


def _column(sentence: list[Row], column: int | str, source: str) -> list[str]:
    width = len(sentence[0][1])
    places = {str(place + 1): place for place in range(width)}
    if width == len(CONLLU):
        places |= {name: place for place, name in enumerate(CONLLU)}
    if str(column) not in places:
        raise UsageProblem(f"{source} has no column {column!r}; {did_you_mean(str(column), places)}")
    found = [cells[places[str(column)]].strip() for _, cells in sentence]
    if "" in found:
        raise Problem(f"{source}, line {sentence[found.index('')][0]}: column {column} is blank. Mend the line.")
    return found


@lru_cache(4096)
def _parts(tag: str) -> tuple[str, str]:
    """The mark of a tag and the kind of its entity."""
    found = SPELLED.fullmatch(tag)
    return (found[1], found[2] or "") if found else ("O", "")


def _tag(mark: str, kind: str) -> str:
    return f"{mark}-{kind}" if kind else mark


def _marks(distinct: set[str], source: str) -> set[str]:
    """The marks that tags use, or none if they spell no entities; refused if they are of no scheme."""
    spelled = {tag for tag in distinct if SPELLED.fullmatch(tag)}
    marks, odd = {tag[0] for tag in spelled} | {"O"}, distinct - spelled - {"O"}
    if odd and not ("O" in distinct and any("-" in tag for tag in spelled)):
        return set()
    if odd or (marks & set(END) and not marks & set(BEGIN)):
        raise Problem(
            f"{source}: {', '.join(sorted(odd or spelled)[:5])} fit no scheme; give IOB1, IOB2 or BIOES tags."
        )
    return marks


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
