"""A run is one folder: run.json (all that decides it), metrics.jsonl, checkpoints/, and at the end model/.

Until then initial/ holds the model as it began: with the weights of a checkpoint it is the model so far, so that a run
can be used before it has finished (`stopped_run`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from regard import __version__
from regard.checkpoints.files import PARTIAL, check_folder, remove_folder, write_file
from regard.errors import Problem
from regard.training.parallel import is_first
from regard.training.resume import differences

RUN, MODEL, INITIAL = "run.json", "model", "initial"
FILES = ("train", "dev", "test", "texts", "vectors")  # settings that name files: these may move


class Savable(Protocol):
    """A model that can be written as a folder."""

    def save(self, folder: Path, card: str = "") -> None: ...


def save_initial(folder: Path, model: Savable) -> None:
    """Write the model as its run begins, on the first rank, unless it lies there already or the run has a model."""
    place = folder / INITIAL
    if not is_first() or (folder / MODEL).is_dir() or (place.is_dir() and is_sound(place)):
        return
    if place.is_dir():
        remove_folder(place)
    model.save(place)


def save_result(folder: Path, model: Savable, card: str) -> None:
    """Write the model that a run has come to; the one it began as is of no more use."""
    model.save(folder / MODEL, card)
    if (folder / INITIAL).is_dir():
        remove_folder(folder / INITIAL)


def is_sound(folder: Path) -> bool:
    try:
        check_folder(folder)
    except Problem:
        return False
    return True


def claim(folder: Path, mine: dict[str, Any]) -> None:
    """Take a folder for a run that is decided by this, or see that it is this run's already.  Whether the text is the
    same is judged by the loop that resumes it."""
    place = folder / RUN
    if place.exists():
        changed = differences(begun(place), decisive(json.loads(json.dumps(mine))))
        if changed and content_of(folder) != [place]:  # one that made nothing may begin otherwise
            raise Problem(f"{folder} holds another run, says {RUN}: {'; '.join(changed)}. Choose another folder.")
    elif folder.is_file() or (folder.exists() and content_of(folder)):
        raise Problem(f"{folder} exists and holds no run of regard. Choose another folder.")
    write_file(place, json.dumps({"regard": __version__} | mine, indent=2).encode())


def content_of(folder: Path) -> list[Path]:
    """What lies in a folder, without what a kill has left of files that were never whole."""
    return [path for path in folder.iterdir() if PARTIAL not in path.name]


def begun(place: Path) -> dict[str, Any]:
    """What decided the run of a run.json."""
    try:
        return decisive(json.loads(place.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(
            f"{place} is damaged, and it says what run this is ({error!r}). Put it back from a copy. "
            "Choose another folder otherwise."
        ) from error


def decisive(run: dict[str, Any]) -> dict[str, Any]:
    """What may not change in a run that goes on; files may move."""
    return {"settings": {k: v for k, v in run["settings"].items() if k not in FILES}, "model": run["model"]}
