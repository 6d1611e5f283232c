"""glue: an encoder fine-tuned and scored on the tasks of GLUE (Wang et al., 2018) that a folder holds."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import did_you_mean
from regard.data.reading import Reading
from regard.errors import Problem, UsageProblem


@dataclass(frozen=True)
class GlueTask:
    kind: str
    scores: tuple[str, ...]  # as GLUE has them; weights are chosen by the first
    dev: tuple[str, ...] = ("dev",)


PARAPHRASE_F1 = "f1 of 1"  # of the label that two texts say the same
GLUE = {
    "CoLA": GlueTask("classify", ("matthews",)),
    "SST-2": GlueTask("classify", ("accuracy",)),
    "MRPC": GlueTask("pair", (PARAPHRASE_F1, "accuracy")),
    "STS-B": GlueTask("regress", ("pearson", "spearman")),
    "QQP": GlueTask("pair", (PARAPHRASE_F1, "accuracy")),
    "MNLI": GlueTask("pair", ("accuracy",), ("dev_matched", "dev_mismatched")),
    "QNLI": GlueTask("pair", ("accuracy",)),
    "RTE": GlueTask("pair", ("accuracy",)),
    "WNLI": GlueTask("pair", ("accuracy",)),
}
READING = Reading()
ENDINGS = (".tsv", ".tsv.xz", ".tsv.gz", ".csv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class GlueScore:
    """What a model reached on the dev file of a task; means of several scores, as GLUE averages them."""

    task: str
    examples: int
    scores: dict[str, float]
    seconds: float

    @property
    def value(self) -> float:
        return sum(self.scores.values()) / len(self.scores)

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.1f}" for name, value in self.scores.items())
        return f"{self.task:<8} {self.value:6.1f}   {told:<42} {self.examples:>9,} examples  {self.seconds:6.0f} s"


def glue(
    model: str | Path,
    folder: str | Path,
    *,
    tasks: Sequence[str] = (),
    out: str | Path | None = None,
    **settings: Any,
) -> Iterator[GlueScore]:
    """Fine-tune on each task that the folder holds (or on those named) and score its dev file, one after the other.
    `settings` are those of `finetune`."""
    from regard.commands.finetune import finetune

    runs = Path(out) if out else Path("runs") / f"glue-{Path(model).name}"
    for name, train, (dev, *others) in found_tasks(Path(folder), tasks):
        task, start = GLUE[name], time.monotonic()
        best = {"best": f"highest {task.scores[0]}"} | settings
        finetuned = finetune(model, task.kind, train=train, dev=dev, out=runs / name, **best)
        scores = dict[str, float]()
        for place in (dev, *others):
            told = finetuned.evaluate(finetuned.task.read(place, READING))
            named = {score.key: score.value for score in told}
            suffix = "" if place == dev else f" ({place.name.split('.')[0].removeprefix('dev_')})"
            scores |= {f"{score}{suffix}": named[score] for score in task.scores}
        examples = len(finetuned.task.read(train, READING))
        yield GlueScore(name, examples, scores, time.monotonic() - start)


def found_tasks(folder: Path, wanted: Sequence[str]) -> list[tuple[str, Path, list[Path]]]:
    """Each task with its training file and its dev files.  One that was asked for must be there."""
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder; give one that holds GLUE's: CoLA, RTE, ...")
    for name in wanted:
        if name not in GLUE:
            raise UsageProblem(f"no task of GLUE is called {name!r}; {did_you_mean(name, GLUE)}")
    places = {plain(place.name): place for place in folder.iterdir() if place.is_dir()}
    found = {name: files for name in wanted or GLUE if (files := task_files(places.get(plain(name)), GLUE[name]))}
    missing = [name for name in wanted or GLUE if name not in found]
    if not found or (wanted and missing):
        looked = ", ".join(missing)
        raise Problem(f"{folder} has no folder with a train and a dev file (such as train.tsv) for {looked}")
    for name in missing:
        if plain(name) in places:
            print(f"left out: {name}, for want of a train or a dev file", file=sys.stderr)
    return [(name, *files) for name, files in found.items()]


def task_files(place: Path | None, task: GlueTask) -> tuple[Path, list[Path]] | None:
    """The training file and the dev files of a task's folder, if they are all there."""
    if place is None:
        return None
    train, dev = table(place, "train"), [path for name in task.dev if (path := table(place, name))]
    return (train, dev) if train and len(dev) == len(task.dev) else None


def table(folder: Path, name: str) -> Path | None:
    return next((path for ending in ENDINGS if (path := folder / f"{name}{ending}").exists()), None)


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
