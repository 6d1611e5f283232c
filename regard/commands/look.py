"""look: what a model attends to in a text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load

if TYPE_CHECKING:
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator
    from regard.viewer.look import Look


def look(
    model: str | Path | Reader | Translator | Finetuned,
    text: str,
    second: str | None = None,
    target: str | None = None,
    write: int = 0,
    name: str = "",
    device: str | None = None,
) -> Look:
    """What a model did with a text: it shows itself in a notebook, and saves itself as a page, a picture or numbers.

    `second` is the second text of a pair, `target` a translation to look at instead of the model's own, and `write` the
    tokens that a language model goes on with first.  The model is a folder, a name on the hub, or loaded already."""
    from regard.viewer.looking import look as run

    found = load(model, device) if isinstance(model, str | Path) else model
    called = name or (name_of(model) if isinstance(model, str | Path) else "")
    return run(found, text, second=second, target=target, write=write, name=called)


def name_of(model: str | Path) -> str:
    """What a model is called: as its folder is, or the folder of its run; or as on the hub."""
    if not Path(model).is_dir():
        return str(model)
    path = Path(os.path.abspath(model))  # also of `.`, but a link is called as it is
    return path.parent.name if path.name == "model" else path.name
