"""A run that has not finished: the model that it has come to so far."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from regard.checkpoints.weights import set_weights
from regard.commands.run_folder import INITIAL
from regard.errors import Problem
from regard.tasks.finetuned import Finetuned
from regard.tasks.task import Task
from regard.training.saving import Checkpoints

WEIGHTS = "model."  # how names of the model's tensors begin in a checkpoint; the others are the objective's


def open_stopped(folder: Path, device: str | None = None) -> Any:
    """The model of the best checkpoint so far, or of the last where none was evaluated; which one is said on stderr.
    Nothing is written, and the run may go on meanwhile."""
    checkpoints = Checkpoints(folder / "checkpoints", lambda text: print(text, file=sys.stderr))
    step, description = best_so_far(folder, checkpoints)
    model = initial_model(folder, device)
    saved = checkpoints.weights(step).items()
    weights = {name.removeprefix(WEIGHTS): tensor for name, tensor in saved if name.startswith(WEIGHTS)}
    set_weights(model.model, weights, checkpoints.at(step))
    if isinstance(model, Finetuned) and isinstance(model.task, Task):
        model.task.finish(model.model)
        for name in model.task.training_settings():
            model.reader.published.theirs.pop(name, None)
    print(f"{folder} has not finished: this is {description}", file=sys.stderr)
    return model


def initial_model(folder: Path, device: str | None) -> Any:
    from regard.commands.load import opened

    if not (folder / INITIAL).is_dir():
        raise Problem(
            f"{folder} is a run that has not finished, and its checkpoints cannot be used without {folder / INITIAL}, "
            "which earlier versions of regard did not write. Give its command again, and it goes on to the end."
        )
    try:
        return opened(folder / INITIAL, device)
    except Problem as problem:
        raise Problem(f"{problem} Give the command of the run again, and {INITIAL} is written anew.") from problem


def best_so_far(folder: Path, checkpoints: Checkpoints) -> tuple[int, str]:
    """The step whose weights are the best of a run so far, and what they are, in words."""
    newest = next((step for step in reversed(checkpoints.steps()) if checkpoints.sound(step)), None)
    if newest is None:
        raise Problem(
            f"{folder} is a run that has not finished, and has no checkpoint that can be used. "
            "Give its command again, and it goes on to the end."
        )
    state = checkpoints.state(newest)
    config, progress = state["config"], state["progress"]
    best = progress["best_step"]
    if best is None or not checkpoints.sound(best):
        return newest, f"its last checkpoint, step {newest:,} of {config['steps']:,}"
    score = f"{config['best'].partition(' ')[2]} {progress['best']:.4g}"
    return best, f"its best checkpoint so far, step {best:,} of {config['steps']:,} ({score})"
