"""senses: the sentences in which a word means the same, by its vectors in them (Peters et al., 2018, table 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.load import load_reader
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    import numpy as np

    from regard.tasks.reader import Reader

WORDS = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")  # what is a word of a sentence, and punctuation alone
LONGEST = 200  # words of a sentence; one that is longer is a table or a list
MOST = 5000  # sentences that are looked at


@dataclass(frozen=True)
class Senses:
    """How a word is looked for, and how much of what is found is told."""

    best: int = 10  # sentences of each list
    groups: int = 2  # into which the sentences are parted
    layers: str = "sum of last 4"
    exact: bool = False  # capital letters are told from small ones

    def __post_init__(self) -> None:
        if self.best < 1 or self.groups < 1:
            raise UsageProblem(f"{self.best} sentences of {self.groups} groups: ask for at least 1 of each")


SENSES = Senses()


@dataclass(frozen=True)
class Place:
    """A sentence, cut into words, and where in it the word stands."""

    sentence: str
    words: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class Near:
    """A sentence, how alike the word's vectors are there (their cosine), and the group it is in, from 1."""

    sentence: str
    cosine: float
    group: int


@dataclass(frozen=True)
class Sense:
    """A use of the word: a sentence, how many sentences are in its group, and the nearest of them all."""

    sentence: str
    group: int
    size: int
    near: list[Near]

    def lines(self) -> list[str]:
        head = f"{self.group}. {self.sentence}  ({self.size:,} sentences)"
        return [head, *(f"   {one.cosine:.3f}  {one.group}  {one.sentence}" for one in self.near)]


@dataclass(frozen=True)
class Found:
    word: str
    count: int  # sentences with the word
    senses: list[Sense]
    notes: list[str]
    static: list[tuple[str, float]]  # the words nearest to its one vector, where vectors were given

    def lines(self) -> list[str]:
        static = ", ".join(f"{word} {cosine:.3f}" for word, cosine in self.static)
        beside = [f"its one vector is near to: {static}"] if static else []
        every = [line for sense in self.senses for line in ("", *sense.lines())]
        return [f"{self.word}: {self.count:,} sentences", *self.notes, *beside, *every]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def senses(
    model: str | Path | Reader,
    word: str,
    texts: Sequence[str | Path],
    sentence: str | None = None,
    how: Senses = SENSES,
    *,
    vectors: str | Path | None = None,
    encoding: str = "utf-8",
    device: str | None = None,
) -> Found:
    """The sentences of texts in which a word is nearest to what it is in a given sentence; or, where none is given, in
    the middle of each group."""
    given = [] if sentence is None else list(places([sentence], word, exact=how.exact))
    if sentence is not None and not given:
        raise UsageProblem(f"the word {word!r} does not stand in {sentence!r}; give a sentence with it")
    static = neighbours(vectors, word, how.best) if vectors else []
    every, notes = found_places(texts, word, how, encoding)
    every = given + [place for place in every if place not in given]
    states, there = embedded(load_reader(model, device), every, how.layers, notes)
    if there[: len(given)] != given:
        raise Problem(f"the model does not read {sentence!r} up to the word {word!r}; give a shorter sentence")
    groups, middles = grouped(states, how.groups)
    asked = [0] if given else middles
    told = [sense(number, there, states, groups, how.best, skip=len(given)) for number in asked]
    return Found(word, len(there) - len(given), told, notes, static)


def found_places(texts: Sequence[str | Path], word: str, how: Senses, encoding: str) -> tuple[list[Place], list[str]]:
    """Where the word stands in texts, a sentence once; and what there is to tell of that."""
    if len(WORDS.findall(word)) != 1:
        raise UsageProblem(f"{word!r} is not one word; give one as it stands in a sentence")
    every = dict.fromkeys(places(sentences_of(texts, encoding), word, exact=how.exact))
    if not every:
        hint = "; leave out --exact to find it with capital letters too" if how.exact else ""
        raise Problem(f"{' '.join(map(str, texts))}: the word {word!r} stands in no sentence{hint}")
    notes = [f"of {len(every):,} sentences the first {MOST:,} are looked at"] if len(every) > MOST else []
    return list(every)[:MOST], notes


def sentences_of(texts: Sequence[str | Path], encoding: str) -> Iterator[str]:
    from regard.data.documents import read_documents
    from regard.data.sentences import sentences

    for document in read_documents(texts, encoding):
        for paragraph in document:
            yield from (sentence.strip() for sentence in sentences(paragraph))


def places(sentences: Sequence[str] | Iterator[str], word: str, *, exact: bool) -> Iterator[Place]:
    """The sentences with the word, each where it stands first."""
    wanted = word if exact else word.casefold()
    for sentence in sentences:
        if wanted not in (sentence if exact else sentence.casefold()):
            continue
        words = tuple(WORDS.findall(sentence))
        plain = words if exact else tuple(one.casefold() for one in words)
        if wanted in plain and len(words) <= LONGEST:
            yield Place(sentence, words, plain.index(wanted))


def embedded(reader: Reader, there: list[Place], layers: str, notes: list[str]) -> tuple[np.ndarray, list[Place]]:
    """The word's vector in each sentence, of length 1; sentences that are not read up to the word are left out."""
    import numpy as np

    rows = reader.embed_words([place.words for place in there], layers=layers)
    vectors = np.stack([row[place.at] for row, place in zip(rows, there, strict=True)]).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    kept = lengths > 0
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} sentences are left out, for the model does not read up to the word")
    if not kept.any():
        raise Problem("the model reads the word in no sentence; give shorter sentences, or another model")
    return vectors[kept] / lengths[kept, None], [place for place, keep in zip(there, kept, strict=True) if keep]


def grouped(vectors: np.ndarray, groups: int) -> tuple[np.ndarray, list[int]]:
    """The group of each vector, the largest group first; and the vector nearest to the middle of each."""
    import numpy as np
    from sklearn.cluster import KMeans

    groups = min(groups, len(np.unique(vectors.round(6), axis=0)))
    said = KMeans(groups, n_init=10, random_state=0).fit_predict(vectors)
    order = np.argsort(-np.bincount(said), kind="stable")
    said = np.argsort(order)[said]
    middles = [vectors[said == group].mean(0) for group in range(groups)]
    return said, [int(np.where(said == g, vectors @ m, -np.inf).argmax()) for g, m in enumerate(middles)]


def sense(number: int, there: list[Place], vectors: np.ndarray, groups: np.ndarray, best: int, skip: int) -> Sense:
    """The sentences nearest to one of them, itself and those before `skip` left out."""
    cosines = vectors @ vectors[number]
    order = [at for at in (-cosines).argsort(kind="stable").tolist() if at != number and at >= skip][:best]
    near = [Near(there[at].sentence, float(cosines[at]), int(groups[at]) + 1) for at in order]
    size = int((groups[skip:] == groups[number]).sum())
    return Sense(there[number].sentence, int(groups[number]) + 1, size, near)


def neighbours(path: str | Path, word: str, best: int) -> list[tuple[str, float]]:
    """What is near to the one vector that a file has for a word; as it is written, or in small letters."""
    from regard.text.vectors import Vectors

    vectors = Vectors.read(path)
    return [(*near,) for near in vectors.near(word if word in vectors else word.lower(), best)]
