"""train: from files of text to a model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import did_you_mean, update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.translate import Translator

TASKS = ("translate",)


def train(
    task: str,
    *,
    model: str = "transformer-small",
    out: str | Path | None = None,
    set: tuple[str, ...] = (),
    allow_changed_data: bool = False,
    **settings: Any,
) -> Translator:
    """Train a model for a task; in a folder that holds the same run already, go on with it.

    `settings` are the fields of TranslationSettings: train, dev, test, tokenizer, vocab, ..., and a dict for some of
    those of its training, as in training={"steps": 1000}; `set` has `path=value` changes to the model's config.
    """
    from regard.commands.settings import TRANSLATION
    from regard.commands.show import configured
    from regard.commands.translation_run import TranslationRun
    from regard.models import TRANSLATORS

    if task not in TASKS:
        raise UsageProblem(f"no task is called {task!r}; {did_you_mean(task, TASKS)}")
    folder = Path(out) if out else Path("runs") / f"{task}-{model}"
    run = TranslationRun(update(TRANSLATION, settings), configured(model, set, TRANSLATORS), folder)
    return run.go(allow_changed_data)
