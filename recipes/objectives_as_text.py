"""Tasks as text, T5's way: the task is named before its texts, and the label is written."""

from __future__ import annotations

from collections.abc import Sequence

from recipes.objectives_plan import METRICS
from regard.data.labelled import Labelled
from regard.tasks.label_metrics import accuracy, binary_f1, matthews, pearson


def named(task: str, texts: Sequence[str]) -> str:
    names = ("text",) if len(texts) == 1 else ("first", "second")
    return f"{task.lower()} " + " ".join(f"{name} : {text}" for name, text in zip(names, texts, strict=True))


def spoken(task: str, label: str) -> str:
    """A label as it is written; similarities in fifths, as T5 has them."""
    return f"{round(float(label) * 5) / 5:.1f}" if task == "STS-B" else "".join(label.lower().split("_"))


def zip_labelled(data: Labelled) -> list[tuple[tuple[str, ...], str]]:
    return list(zip(data.texts, data.labels, strict=True))


def judged(task: str, said: list[str], wanted: list[str]) -> float:
    """The task's score of what was written.  What is no label is wrong; what is no number is taken for none."""
    if task == "STS-B":
        return pearson([number(text) for text in said], [float(text) for text in wanted]).value
    if METRICS[task].startswith("f1 of "):
        return binary_f1(said, wanted, sorted(set(wanted))[-1]).value
    return (matthews if METRICS[task] == "matthews" else accuracy)(said, wanted).value


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
