"""load: a saved model, ready for its task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import Problem

if TYPE_CHECKING:
    from regard.tasks.translate import Translator


def load(model: str | Path, device: str | None = None) -> Translator:
    """The model of a folder: one that holds config.json, or a run's folder."""
    from regard.tasks.translate import Translator

    folder = Path(model)
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder; give the folder of a model, or of a run that has finished")
    if not (folder / "config.json").exists() and (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "run.json").exists():
        raise Problem(f"{folder} is a run that has not finished; give its command again, and it goes on to the end")
    return Translator.load(folder, device)
