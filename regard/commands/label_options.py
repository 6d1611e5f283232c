"""What the options about labels mean for a task: a label map, and several labels per example."""

from __future__ import annotations

from regard.data.reading import Reading
from regard.errors import UsageProblem

NAMED = ("classify", "pair", "similar", "multi-label", "tag", "image")  # tasks whose labels have names
SEVERAL = "multi-label"


def task_for(task: str, train: str, reading: Reading) -> str:
    """The task that is learned: `classify` on several labels per example is `multi-label`.  It is inferred where every
    label of the file is a JSON list; a separator or columns of 0 and 1 say it."""
    if task != "classify":
        return task
    if reading.label_separator is not None or reading.label_columns:
        return SEVERAL
    from regard.data.multi_labelled import holds_label_lists

    return SEVERAL if train and holds_label_lists(train, reading) else task


def check_label_options(task: str, reading: Reading) -> None:
    """Refuse options about labels that the task has no use for."""
    if reading.label_map and task not in NAMED:
        raise UsageProblem(f"label_map={','.join(reading.label_map)}: {task} has no names of labels; leave it out")
    if (reading.label_separator is not None or reading.label_columns) and task != SEVERAL:
        raise UsageProblem(
            f"label_separator={reading.label_separator!r}, label_columns={','.join(reading.label_columns)}: "
            f"{task} has one label per example; several are for classify (multi-label)"
        )
