"""probe: how much of a task can be read off an encoder's states by a logistic regression, layer by layer."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.commands.load import load_reader
from regard.data.labelled import LabelMap, read_examples
from regard.data.reading import Reading
from regard.errors import UsageProblem
from regard.tasks.entity_metrics import entity_f1, tag_accuracy
from regard.tasks.label_metrics import accuracy, macro_f1
from regard.tasks.metrics import Score
from regard.tasks.tag import read_tags
from regard.tasks.task import unseen_warnings

if TYPE_CHECKING:
    from regard.tasks.mix import Mix
    from regard.tasks.reader import Choice, Reader
    from regard.tasks.static import StaticReader

READING = Reading()
STRENGTH = 0.01  # of what holds the regression back: vectors have hundreds of numbers, examples are few
TEST_SHARE = 0.25  # of one file, where no other is given to test on: the lectures' split
ROOM = 2**28  # numbers, of all layers, that are kept at once to learn a mix from


@dataclass(frozen=True)
class Probed:
    layers: str
    scores: list[Score]
    trained_on: int
    tested_on: int
    mix: Mix | None = None  # what was learned, if it was to be

    def __str__(self) -> str:
        scores = "  ".join(f"{score.metric} {score.value:.2f}" for score in self.scores)
        told = f"{self.layers:<16} {scores}  ({self.trained_on:,} to train, {self.tested_on:,} to test)"
        if self.mix is None:
            return told
        shares = " ".join(f"{share:.1%}" for share in self.mix.shares)
        return f'{told}\n{"":<16} shares, what was embedded first: {shares}  (--layers "{self.mix}")'


def probe(
    model: str | Path | Reader | StaticReader,
    task: str,
    train: str | Path,
    test: str | Path | None = None,
    *,
    layers: Sequence[str] = ("last",),
    limit: int | None = None,
    seed: int = 0,
    reading: Reading = READING,
    device: str | None = None,
) -> list[Probed]:
    """Scores for each choice of layers; a task `classify` reads the vectors of texts, `tag` those of words.  Instead of
    an encoder there may be word vectors, as a StaticReader."""
    from regard.tasks.static import StaticReader

    if task not in PROBES:
        raise UsageProblem(f"{task!r} cannot be probed; there are: {', '.join(PROBES)}")
    if isinstance(model, StaticReader) and list(layers) != ["last"]:
        raise UsageProblem(f"word vectors have no layers to choose from; leave out {', '.join(layers)}")
    reader = model if isinstance(model, StaticReader) else load_reader(model, device)
    examples = PROBES[task](train, test, limit, seed, reading)
    return [examples.probed(reader, choice) for choice in layers]


class Probe(ABC):
    """Examples to learn from and examples to be tested on, and the vectors that an encoder has for them."""

    def __init__(
        self, train: str | Path, test: str | Path | None, limit: int | None, seed: int, reading: Reading = READING
    ):
        self.seed, self.reading = seed, reading
        inputs, labels = (every[:limit] for every in self.read(train))
        if test is None:
            known, unknown = split(len(inputs), seed)
            self.known, self.labels = [inputs[i] for i in known], [labels[i] for i in known]
            self.unknown, self.wanted = [inputs[i] for i in unknown], [labels[i] for i in unknown]
        else:
            self.known, self.labels = inputs, labels
            self.unknown, self.wanted = self.read(test)
            self.check(test)

    def check(self, test: str | Path) -> None:
        """Warn of labels to be tested on that are not learned; refuse a test of which none is."""
        learned, wanted = LabelMap.of(self.flat(self.labels)), self.flat(self.wanted)
        learned.check(wanted, str(test))
        for warning in unseen_warnings(learned.unseen(wanted), str(test)):
            warnings.warn(warning.removeprefix("warning: "), stacklevel=2)

    @abstractmethod
    def read(self, path: str | Path) -> tuple[list[Any], list[Any]]:
        """The inputs of a file, and what is to be read off each."""

    @abstractmethod
    def vectors(self, reader: Any, inputs: list[Any], layers: str | Choice) -> np.ndarray:  # (n, W)
        """A vector for every label."""

    @abstractmethod
    def flat(self, labels: list[Any]) -> list[str]:
        """A label for every vector."""

    @abstractmethod
    def scores(self, said: list[str]) -> list[Score]:
        """How good the labels are that were read off the vectors to be tested on."""

    def probed(self, reader: Any, layers: str) -> Probed:
        from regard.tasks.mix import LEARNED

        mix = self.learned(reader) if layers == LEARNED else None
        model = fitted(self.vectors(reader, self.known, mix or layers), self.flat(self.labels))
        said = model.predict(self.vectors(reader, self.unknown, mix or layers)).tolist()
        return Probed(layers, self.scores(said), len(self.known), len(self.unknown), mix)

    def learned(self, reader: Reader) -> Mix:
        """The mix of layers that serves the labels best; of as many examples as there is room for."""
        import torch

        from regard.tasks.mix import learn_mix, stacked

        config = reader.model.encoder.config
        layers, width = config.layers + 1, config.width
        some = self.sample(ROOM // (layers * width))
        vectors = self.vectors(
            reader, [self.known[i] for i in some], lambda every: stacked(every).transpose(0, 1).flatten(1)
        )
        _, labels = np.unique(self.flat([self.labels[i] for i in some]), return_inverse=True)
        states = torch.from_numpy(vectors).float().view(-1, layers, width)
        return learn_mix(states, torch.from_numpy(labels), STRENGTH, self.seed)

    def sample(self, room: int) -> np.ndarray:
        """The numbers of some examples that have no more than `room` vectors together; a warning, if not all."""
        order = np.random.default_rng(self.seed).permutation(len(self.known))
        sizes = np.array([len(self.flat([label])) for label in self.labels])
        kept = order[np.cumsum(sizes[order]) <= room]
        if len(kept) < len(order):
            told = f"the mix of layers is learned from {len(kept):,} of {len(order):,} examples, drawn by chance"
            warnings.warn(f"{told}: the states of all layers of more would take too much memory", stacklevel=2)
        return kept


class TextProbe(Probe):
    def read(self, path):
        examples = read_examples(path, "classify", self.reading)
        return [text for (text,) in examples.texts], examples.labels

    def vectors(self, reader, inputs, layers):
        return reader.embed(inputs, layers=layers)

    def flat(self, labels):
        return labels

    def scores(self, said):
        return [accuracy(said, self.wanted), macro_f1(said, self.wanted)]


class WordProbe(Probe):
    entities = False  # are words tagged as the beginnings and insides of entities?

    def read(self, path):
        tagged = read_tags(path, self.reading)
        self.entities = self.entities or tagged.scheme != "none"
        return tagged.words, tagged.tags

    def vectors(self, reader, inputs, layers):
        return np.concatenate(reader.embed_words(inputs, layers=layers))

    def flat(self, labels):
        return [tag for sentence in labels for tag in sentence]

    def scores(self, said):
        ends = np.cumsum([len(sentence) for sentence in self.wanted])[:-1]
        tags = [part.tolist() for part in np.split(np.array(said), ends)]
        found = [tag_accuracy(tags, self.wanted)]
        return [entity_f1(tags, self.wanted), *found] if self.entities else found


PROBES = {"classify": TextProbe, "tag": WordProbe}


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
