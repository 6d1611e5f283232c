"""pretrain: from plain text to an encoder in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.reader import Reader


def pretrain(
    model: str | Path,
    texts: Sequence[str | Path],
    *,
    tokenizer: str | Path | None = None,
    teacher: str | Path | None = None,
    out: str | Path | None = None,
    corpus: str | Path | None = None,
    set: tuple[str, ...] = (),
    allow_changed_data: bool = False,
    **settings: Any,
) -> Reader:
    """Pretrain an encoder on text; in a folder that holds the same run already, go on with it.

    `model` is a preset, or a folder or a name on the hub to go on from; a preset learns its vocabulary from the text
    unless a tokenizer is given.  A `teacher` is an encoder to be distilled.  `corpus` is where the encoded text goes,
    so that runs can share it.  `settings` are the fields of PretrainingSettings: dev, objective, steps, ...
    """
    from regard.commands.language_run import LanguageRun, is_language
    from regard.commands.pretraining_run import PretrainingRun
    from regard.commands.settings import PRETRAINING

    if not texts:
        raise UsageProblem("there is nothing to pretrain on; name files of text")
    folder = Path(out) if out else Path("runs") / f"pretrain-{Path(model).name}"
    told = {name: [str(p) for p in value] if name == "dev" else value for name, value in settings.items()}
    wanted = update(PRETRAINING, {"texts": [str(path) for path in texts], **told})
    kind = LanguageRun if is_language(str(model), wanted.objective) else PretrainingRun
    run = kind(wanted, str(model), folder, Path(corpus) if corpus else folder / "corpus")
    return run.go(*run.reader(tokenizer, teacher, set), teacher, allow_changed_data)
