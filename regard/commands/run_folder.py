"""A run is one folder: run.json (all that decides it), metrics.jsonl, checkpoints/, and at the end model/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard import __version__
from regard.checkpoints.files import write_file
from regard.errors import Problem
from regard.training.resume import differences

RUN = "run.json"
FILES = ("train", "dev", "test", "texts", "vectors")  # settings that name files: these may move


def claim(folder: Path, mine: dict[str, Any]) -> None:
    """Take a folder for a run that is decided by this, or see that it is this run's already.  Whether the text is the
    same is judged by the loop that resumes it."""
    place = folder / RUN
    if place.exists():
        changed = differences(begun(place), decisive(json.loads(json.dumps(mine))))
        if changed and any(path != place for path in folder.iterdir()):  # one that made nothing may begin otherwise
            raise Problem(f"{folder} holds another run: {'; '.join(changed)}. Choose another folder.")
    elif folder.is_file() or (folder.exists() and any(folder.iterdir())):
        raise Problem(f"{folder} exists and holds no run of regard. Choose another folder.")
    write_file(place, json.dumps({"regard": __version__} | mine, indent=2).encode())


def begun(place: Path) -> dict[str, Any]:
    """What decided the run of a run.json."""
    try:
        return decisive(json.loads(place.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{place} cannot be read ({error!r}). Choose another folder.") from error


def decisive(run: dict[str, Any]) -> dict[str, Any]:
    """What may not change in a run that goes on; files may move."""
    return {"settings": {k: v for k, v in run["settings"].items() if k not in FILES}, "model": run["model"]}
