"""train: from files of text to a model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import did_you_mean, update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.translate import Translator

TASKS = {"translate": "transformer-small", "text": "transformer-small", "image": "vit-cifar"}  # and a model for each


def train(
    task: str,
    *,
    model: str = "",
    out: str | Path | None = None,
    set: tuple[str, ...] = (),
    allow_changed_data: bool = False,
    **settings: Any,
) -> Translator | Finetuned:
    """Train a model for a task; in a folder that holds the same run already, go on with it.

    `model` is a preset, or a folder or a name on the hub to go on from.  To "translate" is to learn from pairs of
    files; "text" is any task as text to text (T5), from files of examples that a `template` turns into texts; "image"
    is to label pictures, whose settings are the fields of PictureSettings, and the folder of a `cache`.
    `settings` are the fields of TranslationSettings: train, dev, test, tokenizer, vocab, ..., and a dict for some of
    those of its training, as in training={"steps": 1000}; `set` has `path=value` changes to the model's config.
    """
    from regard.commands.settings import TRANSLATION
    from regard.commands.translation_run import TranslationRun
    from regard.commands.vector_start import vectors_for
    from regard.data.templates import WHOLE

    if task not in TASKS:
        raise UsageProblem(f"no task is called {task!r}; {did_you_mean(task, TASKS)}")
    model = model or TASKS[task]
    if task == "image":
        return train_image(model, out, set, allow_changed_data, **settings)
    folder = Path(out) if out else Path("runs") / f"{task}-{Path(model).name}"
    wanted = update(TRANSLATION, ({"template": WHOLE} if task == "text" else {}) | settings)
    config, begun = begun_from(model, set)
    vectors = vectors_for(wanted.vectors, model, set)
    return TranslationRun(wanted, config, folder, begun, vectors).go(allow_changed_data)


def train_image(model: str, out: Any, set: tuple[str, ...], allow_changed_data: bool, **settings: Any) -> Finetuned:
    from regard.commands.picture_settings import PICTURES
    from regard.commands.pictures import train_pictures

    cache = settings.pop("cache", None)
    given = settings.get("train", ())
    settings["train"] = [str(path) for path in ([given] if isinstance(given, str | Path) else given)]
    told = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    wanted = update(PICTURES, told)
    return train_pictures(model, wanted, out=out, cache=cache, set=set, allow_changed_data=allow_changed_data)


def begun_from(model: str, set: tuple[str, ...]) -> tuple[Any, Translator | None]:
    """The config of the model to train, and the model itself if it has learned something."""
    from regard.commands.encoders import check_vocabulary
    from regard.commands.load import load_translator
    from regard.commands.show import configured
    from regard.models import TRANSLATORS

    check_vocabulary(set)
    if model in TRANSLATORS or not ("/" in model or Path(model).is_dir()):
        return configured(model, set, TRANSLATORS), None
    if set:
        raise UsageProblem(f"{model} has learned as it is; leave out --set {' '.join(set)}")
    translator = load_translator(model)
    return translator.model.config, translator
