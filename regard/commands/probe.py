"""probe: how much of a task can be read off an encoder's states by a logistic regression, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.commands.load import load_reader
from regard.data.labelled import read_labelled
from regard.data.tagged import Tagged, read_tagged, to_iob2
from regard.errors import UsageProblem
from regard.tasks.entity_metrics import entity_f1, tag_accuracy
from regard.tasks.label_metrics import accuracy, macro_f1
from regard.tasks.metrics import Score

if TYPE_CHECKING:
    from regard.tasks.reader import Reader

STRENGTH = 0.01  # of what holds the regression back: vectors have hundreds of numbers, examples are few
TEST_SHARE = 0.25  # of one file, where no other is given to test on: the lectures' split


@dataclass(frozen=True)
class Probed:
    layers: str
    scores: list[Score]
    trained_on: int
    tested_on: int

    def __str__(self) -> str:
        scores = "  ".join(f"{score.metric} {score.value:.2f}" for score in self.scores)
        return f"{self.layers:<16} {scores}  ({self.trained_on:,} to train, {self.tested_on:,} to test)"


def probe(
    model: str | Path | Reader,
    task: str,
    train: str | Path,
    test: str | Path | None = None,
    *,
    layers: Sequence[str] = ("last",),
    limit: int | None = None,
    seed: int = 0,
    device: str | None = None,
) -> list[Probed]:
    """Scores for each choice of layers; a task `classify` reads the vectors of texts, `tag` those of words."""
    if task not in PROBES:
        raise UsageProblem(f"{task!r} cannot be probed; there are: {', '.join(PROBES)}")
    reader = load_reader(model, device)
    return [PROBES[task](reader, choice, train, test, limit, seed) for choice in layers]


def probe_texts(reader: Reader, layers: str, train, test, limit: int | None, seed: int) -> Probed:
    examples = read_labelled(train, "classify")
    texts, labels = [text for (text,) in examples.texts][:limit], examples.labels[:limit]
    if test is None:
        known, unknown = split(len(texts), seed)
        vectors = reader.embed(texts, layers=layers)
        vectors, others = vectors[known], vectors[unknown]
        labels, wanted = [labels[i] for i in known], [labels[i] for i in unknown]
    else:
        held = read_labelled(test, "classify")
        vectors, others = (reader.embed(some, layers=layers) for some in (texts, [text for (text,) in held.texts]))
        wanted = held.labels
    said = fitted(vectors, labels).predict(others).tolist()
    return Probed(layers, [accuracy(said, wanted), macro_f1(said, wanted)], len(labels), len(wanted))


def probe_words(reader: Reader, layers: str, train, test, limit: int | None, seed: int) -> Probed:
    every = iob2(train)
    words, tags = every.words[:limit], every.tags[:limit]
    if test is None:
        known, unknown = split(len(words), seed)
        words, held_words = [words[i] for i in known], [words[i] for i in unknown]
        tags, wanted = [tags[i] for i in known], [tags[i] for i in unknown]
    else:
        held = iob2(test)
        held_words, wanted = held.words, held.tags
    vectors = np.concatenate(reader.embed_words(words, layers=layers))
    model = fitted(vectors, [tag for sentence in tags for tag in sentence])
    flat = model.predict(np.concatenate(reader.embed_words(held_words, layers=layers)))
    ends = np.cumsum([len(sentence) for sentence in wanted])[:-1]
    said = [part.tolist() for part in np.split(flat, ends)]
    scores = [tag_accuracy(said, wanted)]
    if every.scheme != "none":
        scores.insert(0, entity_f1(said, wanted))
    return Probed(layers, scores, len(words), len(wanted))


PROBES = {"classify": probe_texts, "tag": probe_words}


def iob2(path: str | Path) -> Tagged:
    tagged = read_tagged(path)
    return tagged if tagged.scheme == "none" else to_iob2(tagged)


def split(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Numbers to train on and numbers to test on."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    tested = round(count * TEST_SHARE)
    return order[tested:], order[:tested]


def fitted(vectors: np.ndarray, labels: Sequence[str]):
    """A logistic regression; numbers are brought to one scale first, since some encoders' vectors are one long."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) < 2:
        raise UsageProblem(f"all examples have the label {labels[0]!r}: there is nothing to tell apart")
    return make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000)).fit(vectors, labels)
