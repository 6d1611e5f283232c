"""load: a saved model, ready for its task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import Problem

if TYPE_CHECKING:
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator


def load(model: str | Path, device: str | None = None) -> Translator | Reader:
    """The model of a folder (one that holds config.json, or a run's), or of a name on the hub, which is fetched unless
    the cache has it.  Encoders read, translators translate."""
    from regard.checkpoints.hub import fetched
    from regard.models import FAMILIES
    from regard.models.folder import CONFIG, read_json
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator

    folder = Path(model) if Path(model).is_dir() else fetched(str(model))
    if not (folder / CONFIG).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "run.json").exists():
        raise Problem(f"{folder} is a run that has not finished; give its command again, and it goes on to the end")
    family, _ = read_json(folder / CONFIG)
    return Translator.load(folder, device) if family in FAMILIES else Reader.load(folder, device)


def load_translator(model: str | Path | Translator, device: str | None = None) -> Translator:
    from regard.tasks.translate import Translator

    found = load(model, device) if isinstance(model, str | Path) else model
    if not isinstance(found, Translator):
        raise Problem(f"{model} is an encoder, and cannot translate; give the folder of a translator")
    return found


def load_reader(model: str | Path | Reader, device: str | None = None) -> Reader:
    from regard.tasks.reader import Reader

    found = load(model, device) if isinstance(model, str | Path) else model
    if not isinstance(found, Reader):
        raise Problem(f"{model} is a translator; give the folder of an encoder, such as BERT")
    return found
