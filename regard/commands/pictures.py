"""Learning to label pictures: from nothing, or from a model that reads them already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import change, settings_of, update
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.commands.picture_settings import PictureSettings
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.image import Image

FINETUNED = {  # the settings of a fine-tuning that are those of pictures too
    "dev", "test", "reading", "epochs", "batch", "rate", "schedule", "warmup", "weight_decay", "best", "patience",
    "precision", "launch", "seed",
}  # fmt: skip


def train_pictures(
    model: str | Path,
    settings: PictureSettings,
    *,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    set: tuple[str, ...] = (),
    allow_changed_data: bool = False,
) -> Finetuned:
    """Train a model that labels pictures; in a folder that holds the same run already, go on with it."""
    import torch

    from regard.commands.picture_run import EPOCHS, RATE, PictureRun
    from regard.models import VISION

    learned = str(model) not in VISION
    settings = replace(settings, epochs=settings.epochs or EPOCHS[learned], rate=settings.rate or RATE[learned])
    folder = Path(out) if out else Path("runs") / f"image-{Path(model).name}"
    teacher = load_labeller(settings.teacher) if settings.teacher else None
    run = PictureRun(settings, str(model), folder, Path(cache) if cache else None)
    torch.manual_seed(settings.seed)
    finetuned, fresh = begun_from(str(model), run.task, set, taught=teacher is not None)
    return run.go(finetuned, fresh, teacher, allow_changed_data)


def finetune_pictures(model: str | Path, **given: Any) -> Finetuned:
    """What `finetune` was given for this task; the settings of texts mean nothing here."""
    from regard.commands.picture_settings import GENTLE, PICTURES
    from regard.commands.settings import FINETUNING

    how = {name: given.pop(name) for name in ("out", "set", "allow_changed_data") if name in given}
    train = given.pop("train", "")
    for name, value in list(given.items()):
        if name not in FINETUNED and value not in (None, "", getattr(FINETUNING, name, None)):
            raise UsageProblem(f"{name}={value}: this is for texts; leave it out for pictures")
    told = {name: value for name, value in given.items() if name in FINETUNED and value is not None}
    told = {name: str(value) if isinstance(value, Path) else value for name, value in told.items()}
    if not told.get("best"):
        told.pop("best", None)
    if not train:
        raise UsageProblem("fine-tuning needs train=FOLDER to learn from")
    gentle = replace(PICTURES, train=(str(train),), augment=GENTLE)
    return train_pictures(model, update(gentle, told), **how)


def begun_from(model: str, task: Image, set: tuple[str, ...], *, taught: bool) -> tuple[Finetuned, list[str]]:
    """A preset that has learned nothing, with `path=value` changes; or a model, with a head for these labels."""
    from regard.commands.load import load
    from regard.commands.show import configured
    from regard.models import VISION, family_of
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.image import PictureReader, new_labeller, with_labels

    if model in VISION or not ("/" in model or Path(model).is_dir()):
        config = configured(model, set, VISION)
        return new_labeller(family_of(model), config, task, taught=taught), []
    found: Any = load(model)
    reader = found.reader if isinstance(found, Finetuned) else found
    if not isinstance(reader, PictureReader):
        raise Problem(f"{model} reads no pictures; give a model that does, or a preset: {', '.join(VISION)}")
    for path, _ in map(settings_of, set):
        if not path.endswith("dropout"):
            raise UsageProblem(f"--set {path}: {model} has learned as it is; only dropout can be changed")
    config = reader.model.encoder.config
    for setting in set:
        config = change(config, *settings_of(setting))
    return with_labels(reader, task, config, taught=taught)


def load_labeller(model: str) -> Finetuned:
    """A teacher: any model that labels pictures."""
    from regard.commands.load import load_finetuned

    return load_finetuned(model, None, ("image",))
