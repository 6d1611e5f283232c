"""prompt: how well a language model does a task from examples in its context, by how many it is shown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.commands.generate import load_writer
from regard.config import did_you_mean
from regard.data.reading import Reading
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.data.labelled import Labelled
    from regard.tasks.in_context import Example, InContext
    from regard.tasks.reader import Reader
    from regard.viewer.curve import Curve

READING = Reading()


@dataclass(frozen=True)
class Prompting:
    """What a model is shown, and how its answers are read."""

    shots: tuple[int, ...] = (0, 1, 4, 16)
    seeds: int = 3  # times that examples are drawn anew
    limit: int | None = None  # test examples, drawn by chance; None: all
    template: str | None = None  # None: the task's
    verbal: Mapping[str, str] = field(default_factory=dict)  # what a label is called in a prompt
    rank: Literal["total", "mean", "calibrated"] = "total"

    def __post_init__(self) -> None:
        if not self.shots or min(self.shots) < 0 or len(set(self.shots)) < len(self.shots):
            raise UsageProblem(f"shots {','.join(map(str, self.shots))}: give different numbers from 0 upwards")
        if self.seeds < 1 or (self.limit is not None and self.limit < 1):
            raise UsageProblem(f"{self.seeds} seeds and {self.limit} examples: ask for at least 1 of each")


PROMPTING = Prompting()


@dataclass(frozen=True)
class Shown:
    """What came of one number of examples."""

    shots: int
    accuracies: list[float]  # in hundredths, one for each drawing
    dropped: int  # examples that did not fit, of all prompts
    cut: int  # prompts that lost their beginning though they had no example left

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        """The standard deviation over the drawings."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


@dataclass(frozen=True)
class Prompted:
    rows: list[Shown]
    chance: float  # what guessing would give
    tested_on: int
    facts: list[str]

    def lines(self) -> list[str]:
        table = [f"{'shots':>5}  accuracy  spread  each"]
        table += [
            f"{row.shots:>5}  {row.mean:>8.2f}  {row.spread:>6.2f}  {' '.join(f'{one:.2f}' for one in row.accuracies)}"
            for row in self.rows
        ]
        told = [f"by chance {self.chance:.2f}; {self.tested_on:,} examples tested on"]
        for row in self.rows:
            if row.dropped or row.cut:
                told.append(
                    f"warning: {row.shots} shots do not all fit into the model's places: {row.dropped:,} examples were "
                    f"left out, and {row.cut:,} prompts without any lost their beginning"
                )
        return [*self.facts, *table, *told]

    def to_dict(self) -> dict[str, Any]:
        rows = [{**asdict(row), "mean": row.mean, "spread": row.spread} for row in self.rows]
        return {"rows": rows, "chance": self.chance, "tested_on": self.tested_on}

    def curve(self) -> Curve:
        from regard.viewer.curve import Curve

        rows = sorted(self.rows, key=lambda row: row.shots)
        numbers, means, spreads = zip(*((row.shots, row.mean, row.spread) for row in rows), strict=True)
        return Curve("examples shown", "accuracy", numbers, means, spreads, ("chance", self.chance))


def prompt(
    model: str | Path | Reader,
    task: str,
    train: str | Path,
    test: str | Path,
    how: Prompting = PROMPTING,
    *,
    reading: Reading = READING,
    device: str | None = None,
) -> Prompted:
    """The accuracy on a test file, each example preceded by as many of a training file as are asked for."""
    from regard.commands.label_options import check_label_options
    from regard.data.labelled import LabelMap
    from regard.tasks.in_context import FIELDS, TEMPLATES, InContext, Template, check_verbal, examples_of
    from regard.tasks.task import unseen_warnings

    if task not in TEMPLATES:
        raise UsageProblem(f"{task!r} is no task for prompts; {did_you_mean(task, TEMPLATES)}")
    check_label_options(task, reading)
    template = Template(how.template or TEMPLATES[task], FIELDS[task])
    known, asked = read(train, task, reading), read(test, task, reading)
    labels = LabelMap.of(known.labels)
    if task != "choose":
        check_verbal(how.verbal, labels)
        labels.check(asked.labels, asked.source)
    elif how.verbal:
        raise UsageProblem("choices say themselves: leave out what labels are called")
    shown, tested = (examples_of(data, task, labels, how.verbal) for data in (known, asked))
    tested = some_of(tested, how.limit)
    answering = InContext(load_writer(model, device), template, how.rank)
    rows = [tried(answering, shown, tested, shots, how.seeds, balanced=task != "choose") for shots in how.shots]
    chance = 100 * statistics.fmean((example.right >= 0) / len(example.options) for example in tested)
    unseen = unseen_warnings(labels.unseen(asked.labels), asked.source) if task != "choose" else []
    return Prompted(rows, chance, len(tested), [*facts(known, asked), *unseen])


def read(path: str | Path, task: str, reading: Reading) -> Labelled:
    from regard.data.labelled import read_examples

    kind: Any = task
    return read_examples(path, kind, reading)


def facts(known: Labelled, asked: Labelled) -> list[str]:
    from regard.data.labelled import overlap

    found = overlap(known, asked)
    leak = [f"warning: of what is tested, {found} stand in what is shown"] if found.texts else []
    return [*known.lines(), *asked.lines(), *leak]


def some_of(examples: list[Example], limit: int | None) -> list[Example]:
    """So many of them by chance, for a file may be sorted; the same ones every time."""
    import numpy as np

    if limit is None or limit >= len(examples):
        return examples
    return [examples[number] for number in sorted(np.random.default_rng(0).permutation(len(examples))[:limit])]


def tried(
    answering: InContext, shown: Sequence[Example], tested: Sequence[Example], shots: int, seeds: int, *, balanced: bool
) -> Shown:
    """One number of examples, drawn anew for each seed; without examples there is nothing to draw."""
    from regard.tasks.in_context import drawn_shots

    found = [
        answering.answers(drawn_shots(shown, shots, seed, balanced=balanced), tested)
        for seed in range(seeds if shots else 1)
    ]
    right = [sum(c == e.right for c, e in zip(one.chosen, tested, strict=True)) for one in found]
    accuracies = [100 * count / len(tested) for count in right]
    return Shown(shots, accuracies, sum(one.dropped for one in found), sum(one.cut for one in found))
