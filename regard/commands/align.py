"""align: a language model learns to write what is preferred, from a reward model or from pairs of texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.align_settings import ALIGNING
from regard.config import update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.writer import Writer


def align(
    model: str | Path,
    *,
    prompts: str | Path | None = None,
    out: str | Path | None = None,
    allow_changed_data: bool = False,
    **settings: Any,
) -> Writer:
    """Align a language model; in a folder that holds the same run already, go on with it.

    `model` is a folder or a name on the hub.  By PPO it writes on from `prompts`, a file, and learns from what a
    `reward` model, a folder, finds that worth; with objective="direct" it learns from `train`, a file of pairs.
    `settings` are the fields of AligningSettings: reward, train, dev, steps, ...
    """
    from regard.commands.clipped_run import ClippedRun
    from regard.commands.direct_run import DirectRun
    from regard.commands.generate import load_writer

    told = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    if prompts and told.get("train"):
        raise UsageProblem(f"both prompts, {prompts}, and pairs, {told['train']}, are given; leave one of them out")
    wanted = update(ALIGNING, told | ({"train": str(prompts)} if prompts else {}))
    check(wanted, prompts)
    folder = Path(out) if out else Path("runs") / f"align-{Path(model).name}"
    kind = ClippedRun if wanted.objective == "clipped" else DirectRun
    return kind(wanted, str(model), folder).go(load_writer(model), allow_changed_data)


def check(settings: Any, prompts: object) -> None:
    """Whether what is given fits the way that is asked for."""
    if settings.objective == "direct":
        if not settings.train:
            raise UsageProblem("direct preference optimisation needs train=FILE (--train): pairs to learn from")
        if prompts or settings.reward:
            raise UsageProblem(
                f"{prompts or settings.reward}: direct preference optimisation learns from pairs alone; leave it out"
            )
    elif not settings.reward or not settings.train:
        raise UsageProblem(
            "PPO needs a reward model and prompts to write on from: --reward FOLDER --prompts FILE; "
            "to learn from pairs, say --objective direct --train FILE"
        )
    elif not prompts:
        raise UsageProblem(f"{settings.train} are pairs, and PPO needs prompts; say --objective direct for pairs")
