"""Learning word vectors: the text on the device, an objective over two tables, AdaGrad."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch

from regard.commands.vectors import Kind, VectorSettings
from regard.data.word_stream import BatchSize, Cooccurrences, WordStream
from regard.data.words import WordText
from regard.models.words import WordTables
from regard.objectives.objective import Asked, Objective
from regard.objectives.words import Bag, GloVe, SkipGram, Windows
from regard.tasks.device import moved
from regard.text.vectors import Vectors
from regard.training.report import default_reporter
from regard.training.tables import Pace, train_tables

Source = WordStream | Cooccurrences


@dataclass(frozen=True)
class Own:
    """What serves a kind well."""

    pace: Pace
    epochs: int


OWN: dict[Kind, Own] = {
    "skip-gram": Own(Pace(0.8, 64.0), 5),
    "cbow": Own(Pace(0.4, 0.1), 5),
    "glove": Own(Pace(0.5, 1.0), 15),
}
STEPS = 1000  # at least, if the text has as many


def learned(kind: Kind, text: WordText, settings: VectorSettings, device: str | None) -> Vectors:
    """The vectors of a text; on a CPU the same seed, with as many threads, gives the same numbers."""
    torch.manual_seed(settings.seed)
    tables = WordTables(len(text.words), settings.size, biases=kind == "glove")
    model = cast(WordTables, moved(tables, device))
    epochs, pace = settings.epochs or OWN[kind].epochs, OWN[kind].pace
    size = BatchSize(steps_at_least=-(-STEPS // epochs))
    source, objective = asked_of(kind, text, settings, size, model.words.weight.device)
    batches = (batch for _ in range(epochs) for batch in source.epoch())
    pace = replace(pace, rate=settings.rate or pace.rate)
    train_tables(Asked(model, objective), batches, epochs * source.steps, pace, epochs * text.total, default_reporter())
    found = model.words.weight + model.contexts.weight if kind == "glove" else model.words.weight
    return Vectors(text.words, found.detach().cpu().numpy())


def asked_of(
    kind: Kind, text: WordText, s: VectorSettings, size: BatchSize, device: torch.device
) -> tuple[Source, Objective]:
    if kind == "glove":
        return Cooccurrences(text, s.window, size, device), GloVe(s.common)
    windows = Windows.of(torch.from_numpy(text.counts).to(device), s.window, s.negatives)
    objective = SkipGram(windows) if kind == "skip-gram" else Bag(windows)
    return WordStream(text, s.window, size, s.sample, device), objective
