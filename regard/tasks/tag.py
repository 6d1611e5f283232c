"""A tag for each word, read off the first of its pieces (Devlin et al., 2018); and the entities that tags spell, as
spans of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np
from torch import Tensor, nn

from regard.data.framed import Examples, Framed, Row
from regard.data.labelled import LabelMap
from regard.data.parallel import Ragged
from regard.data.reading import Reading
from regard.data.tagged import Tagged, entities, iob2, iob2_tags, read_tagged, spells_entities, to_iob2
from regard.data.windows import Windows
from regard.errors import Problem
from regard.models.published import Published
from regard.objectives.objective import Batch, Result
from regard.objectives.reading import answered, scores_of
from regard.tasks.entity_metrics import entity_f1, found_by_kind, tag_accuracy
from regard.tasks.metrics import Score
from regard.tasks.reader import Reader
from regard.tasks.task import Task, label_names, label_settings

Input = str | Sequence[str]  # a text, or words
NOTHING = -100  # what is wanted of a token of which nothing is asked
OTHER = "regard_other_tag"  # what a config.json of ours calls the tag of words that cannot be read


@dataclass(frozen=True)
class Entity:
    """What is named in a text, and from which character to which."""

    kind: str
    start: int
    end: int
    text: str
    probability: float  # of the least probable of its tags


@dataclass(frozen=True)
class Tags:
    """The tags of a text's words, in IOB2 if they spell entities.  Where words were given, their entities are spans of
    these words with a space between each two."""

    words: list[str]
    tags: list[str]
    entities: list[Entity]
    unread: int = 0  # words without a piece, which get the commonest tag


@dataclass(frozen=True)
class Sentence:
    """A text and where its words are."""

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, given: Input) -> Sentence:
        if isinstance(given, str):
            return cls(given, [found.span() for found in word_pattern().finditer(given)])
        ends = accumulate(len(word) + 1 for word in given)
        return cls(" ".join(given), [(end - 1 - len(word), end - 1) for word, end in zip(given, ends, strict=True)])

    @cached_property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


@dataclass(frozen=True, eq=False)
class LaidWords:
    """Sentences as rows; a sentence that is too long has several, which overlap."""

    framed: Framed
    places: list[np.ndarray]  # of each sentence, where among all tokens the first piece of each word lies; -1: nowhere

    def notes(self) -> list[str]:
        longer = len(self.framed) - len(self.places)
        unread = sum(int((places < 0).sum()) for places in self.places)
        told = {
            "rows are added for sentences too long for one": longer,
            "words have no pieces, and teach nothing": unread,
        }
        return [f"warning: {count:,} {what}" for what, count in told.items() if count]


class Tag(Task):
    role = "tag"

    def __init__(self, labels: LabelMap, other: str):
        super().__init__()
        self.labels, self.outputs, self.other = labels, len(labels), other
        self.spells = spells_entities(labels.names)
        self.watched = "entity f1" if self.spells else "tag accuracy"

    @classmethod
    def read(cls, path: str | Path, reading: Reading) -> Tagged:
        return read_tags(path, reading)

    @classmethod
    def of(cls, data: Tagged) -> Tag:
        """Both tags of every kind of entity, even if a small file has but one of them."""
        counts = Counter(chain.from_iterable(data.tags))
        [(commonest, _)] = counts.most_common(1)
        if len(counts) < 2:
            raise Problem(f"{data.source}: all words have the tag {commonest!r}; give two or more kinds")
        spells = data.scheme != "none"
        return cls(LabelMap.of(iob2_tags(counts) if spells else counts), "O" if spells else commonest)

    @classmethod
    def load(cls, published: Published) -> Tag:
        names = label_names(published, "tag")
        other = published.theirs.get(OTHER, "O")
        return cls(LabelMap(names), other if other in names else names[0])

    def settings(self) -> dict[str, Any]:
        return {**label_settings(self.labels.names), OTHER: self.other}

    def examples(self, reader: Reader, data: Tagged) -> Examples:
        laid = lay_words(reader, data.words)
        places, ids = np.concatenate(laid.places), tag_ids(self.labels, data)
        wanted = np.full(laid.framed.ids.offsets[-1], NOTHING, np.int32)
        wanted[places[places >= 0]] = ids[places >= 0]
        return Examples(laid.framed, Ragged(wanted, laid.framed.ids.offsets), notes=laid.notes())

    def prepare(self, batch: Batch) -> Batch:
        """Where tags are wanted, and which: found here, since a device would have to be waited for."""
        places = (batch["wanted"] != NOTHING).nonzero().squeeze(1)  # (M,)
        return {**batch, "places": places, "wanted": batch["wanted"][places].long()}

    def judge_states(self, model: nn.Module, states: Tensor, batch: Batch) -> Result:
        asked = states[batch["places"]]  # (N, W) -> (M, W)
        scores = scores_of(model, "tag", asked, batch["tokens"].rows, self)  # (M, W) -> (M, V)
        return answered(scores.float(), batch["wanted"])

    def predict(self, reader: Reader, inputs: Sequence[Input]) -> list[Tags]:
        sentences = [Sentence.of(given) for given in inputs]
        laid = lay_words(reader, [sentence.words for sentence in sentences])
        labels, shares = best_labels(reader, laid.framed)
        return [
            self.tagged(sentence, places, labels[places], shares[places])
            for sentence, places in zip(sentences, laid.places, strict=True)
        ]

    def tagged(self, sentence: Sentence, places: np.ndarray, labels: np.ndarray, shares: np.ndarray) -> Tags:
        names = (self.labels.names[label] for label in labels.tolist())
        tags = [name if place >= 0 else self.other for name, place in zip(names, places, strict=True)]
        found = []
        for kind, first, after in entities(tags) if self.spells else ():
            start, end = sentence.spans[first][0], sentence.spans[after - 1][1]
            found.append(Entity(kind, start, end, sentence.text[start:end], float(shares[first:after].min())))
        return Tags(sentence.words, iob2(tags) if self.spells else tags, found, int((places < 0).sum()))

    def inputs(self, data: Tagged) -> list[list[str]]:
        return data.words

    def check(self, data: Tagged) -> None:
        """Where tags spell entities, their kinds are compared: every file has words outside entities."""
        if self.spells and data.scheme != "none":
            LabelMap.of(entity_kinds(self.labels.names)).check(entity_kinds(tags_in(data)), data.source)
        else:
            self.labels.check(tags_in(data), data.source)

    def unseen(self, data: Tagged) -> dict[str, int]:
        known = LabelMap.of(iob2_tags(self.labels.names)) if self.spells else self.labels
        return known.unseen(tags_in(data))

    def metrics(self, data: Tagged) -> list[str]:
        if not self.spells:
            return ["tag accuracy"]
        kinds = sorted({kind for tags in data.tags for kind, _, _ in entities(tags)})
        return ["entity f1", "tag accuracy", *(f"entity f1 of {kind}" for kind in kinds)]

    def score(self, answers: Sequence[Tags], data: Tagged) -> list[Score]:
        self.check(data)
        said = [answer.tags for answer in answers]
        if not self.spells:
            return [tag_accuracy(said, data.tags)]
        total = entity_f1(said, data.tags)
        kinds = [
            Score(f"entity F1 of {kind}", found.f1, "rules:conlleval", str(found))
            for kind, found in found_by_kind(said, data.tags).items()
            if found.f1 is not None
        ]
        return [total, tag_accuracy(said, data.tags), *kinds]


def read_tags(path: str | Path, reading: Reading) -> Tagged:
    """The sentences of a file with their tags in IOB2 where they spell entities, renamed by the label map."""
    found = to_iob2(read_tagged(path, reading.label, word=reading.text, encoding=reading.encoding))
    renames = reading.renames
    tags = [[rename_tag(tag, renames) for tag in sentence] for sentence in found.tags] if renames else found.tags
    return replace(found, tags=tags)


def rename_tag(tag: str, renames: Mapping[str, str]) -> str:
    """A tag as the label map calls it: by its own name, or by that of the kind of entity it marks."""
    mark, dash, kind = tag.partition("-")
    return renames.get(tag) or (f"{mark}-{renames[kind]}" if dash and kind in renames else tag)


def tags_in(data: Tagged) -> Iterable[str]:
    """The tags of all words."""
    return chain.from_iterable(data.tags)


def entity_kinds(tags: Iterable[str]) -> set[str]:
    """The kinds of entity that IOB2 tags mark."""
    return {tag.partition("-")[2] for tag in set(tags) - {"O"}}


def tag_ids(labels: LabelMap, data: Tagged) -> np.ndarray:
    """The ids of the tags of all words."""
    sentence = np.repeat(np.arange(len(data)), [len(tags) for tags in data.tags])
    return np.array(labels.ids([*chain.from_iterable(data.tags)], lambda word: data.place(sentence[word])))


def lay_words(reader: Reader, sentences: Iterable[Sequence[str]]) -> LaidWords:
    """All words in rows that the model can read, each once: where it has the most around it."""
    frame = reader.tokenizer.frame
    around = frame.around()
    windows = Windows.of(reader.longest - around)
    rows, places, total = list[Row](), [], 0
    for words in sentences:
        pieces, owners = reader.reading.encode_words(words)
        cuts = windows.over(len(pieces))
        rows += [frame.row(pieces[cut.start : cut.stop]) for cut in cuts]
        lengths = [len(ids) for ids, _ in rows[-len(cuts) :]]
        begins = np.array(list(accumulate(lengths, initial=total))[:-1]) + len(frame.first)
        known, first = np.unique(np.array(owners, np.int64), return_index=True)
        which = windows.owners(first, len(cuts))
        found = np.full(len(words), -1)
        found[known] = first - windows.step * which + begins[which]
        places.append(found)
        total += sum(lengths)
    return LaidWords(Framed.of(rows), places)


def best_labels(reader: Reader, framed: Framed) -> tuple[np.ndarray, np.ndarray]:  # (N + 1,), (N + 1,)
    """The label of each token of all rows, and its probability; the last is that of words which lie nowhere."""
    offsets = framed.ids.offsets
    labels, shares = np.zeros(offsets[-1] + 1, np.int64), np.zeros(offsets[-1] + 1)
    for numbers, scores, rows in reader.scores("tag", framed):
        best = scores.float().softmax(-1).max(-1)
        parts = zip(numbers, rows.split(best.indices.cpu()), rows.split(best.values.cpu()), strict=True)
        for number, label, share in parts:
            row = slice(offsets[number], offsets[number + 1])
            labels[row], shares[row] = label.numpy(), share.numpy()
    return labels, shares


@cache
def word_pattern() -> re.Pattern[str]:
    """How a text is cut into words, much as in the text of CoNLL: letters, digits and the marks on them, joined by - or
    & or an apostrophe, and figures by their points; initials with theirs (U.N.).  A possessive 's stands apart, and so
    does every other character that is no space.  Text without spaces between words is to be given as words."""
    marks = "".join(letter for letter in map(chr, range(0x300, 0x1F000)) if category(letter)[0] == "M")
    word = rf"[\w\u200c\u200d{marks}]+"
    joint = r"[-&]|['’](?!s\b)|[.,/:](?=\d)"
    return re.compile(rf"(?:[^\W\d_]\.){{2,}}|['’]s\b|{word}(?:(?:{joint}){word})*|\S")
