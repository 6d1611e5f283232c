"""The model of sound that a command is to train: a preset that has learned nothing, a folder, or a name on the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import did_you_mean, settings_of
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.listener import Listener


def is_sound(model: str | Path, objective: str = "") -> bool:
    """Whether a run is a model of sound's: what is asked says so, or the model."""
    from regard.commands.language_run import family_in
    from regard.models import HEARERS, SOUND

    return objective == "contrast" or str(model) in SOUND or family_in(str(model)) in HEARERS


def listener_of(model: str | Path, settings: Sequence[str] = (), seed: int = 0) -> tuple[Listener, Any]:
    """A model of sound, and the config it is to be trained with."""
    import torch

    from regard.commands.encoders import changed
    from regard.data.ears import Ears
    from regard.models import SOUND, family_of
    from regard.models.heads import new_encoder
    from regard.models.wav2vec2 import RATES
    from regard.tasks.listener import Listener

    if str(model) in SOUND:
        config = changed(SOUND[str(model)], settings)
        torch.manual_seed(seed)
        ears = Ears(RATES.get(str(model), Ears.rate))
        return Listener(new_encoder(family_of(str(model)), config, set()), ears), config
    for path, _ in map(settings_of, settings):
        if not (path.endswith("dropout") or path.startswith("spans.")):
            raise UsageProblem(f"--set {path}: {model} has learned as it is; only dropout and spans can be changed")
    try:
        found = load_listener(model, "cpu")
    except Problem as problem:
        if Path(model).exists():
            raise
        raise Problem(f"{problem} Of presets, {did_you_mean(str(model), SOUND)}") from None
    return found, changed(found.model.encoder.config, settings)


def load_listener(model: str | Path | Listener | Finetuned, device: str | None = None) -> Listener:
    from regard.commands.load import load
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.listener import Listener

    found: Any = load(model, device) if isinstance(model, str | Path) else model
    found = found.reader if isinstance(found, Finetuned) else found
    if not isinstance(found, Listener):
        raise Problem(f"{model} does not hear; give the folder of a model of sound, such as wav2vec2")
    return found
