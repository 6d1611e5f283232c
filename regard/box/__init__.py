"""The models that come with regard: small ones, which a command uses when no model is named.  recipes/box.py trains
them.  $REGARD_BOX may name another folder of models.  No torch here."""

from __future__ import annotations

import os
from pathlib import Path

from regard.config import did_you_mean
from regard.errors import Problem, UsageProblem

MODELS = Path(__file__).parent / "models"
TASKS = {  # what a command is for -> the model that does it; for translate, by the language that is written
    "fill": "encoder",
    "embed": "encoder",
    "look": "encoder",
    "pretrain": "encoder",
    "finetune": "encoder",
    "classify": "sentiment",
    "tag": "entities",
    "generate": "language-model",
    "translate": "translate-{target}",
}
TARGETS = {"en": "de-en", "de": "en-de"}


def folder() -> Path:
    """Where the models lie."""
    return Path(os.environ["REGARD_BOX"]) if os.environ.get("REGARD_BOX") else MODELS


def boxes() -> dict[str, Path]:
    """The models there are: name -> folder."""
    place = folder()
    found = sorted(place.iterdir()) if place.is_dir() else []
    return {path.name: path for path in found if (path / "config.json").is_file()}


def boxed(task: str, *, target: str = "en") -> Path:
    """The folder of the model for a task; a translator's target is the language it writes, en or de."""
    if task not in TASKS:
        raise UsageProblem(f"no model in the box is for {task!r}; {did_you_mean(task, TASKS)}")
    if target not in TARGETS:
        raise UsageProblem(f"no model in the box translates to {target!r}; there are: {', '.join(TARGETS)}")
    name, found = TASKS[task].format(target=TARGETS[target]), boxes()
    if name not in found:
        raise Problem(
            f"{folder() / name}: there is no such model, and none was named; name one with --model, or let "
            "$REGARD_BOX name a folder that holds it"
        )
    return found[name]
