"""finetune: from an encoder and labelled examples to a model for a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import did_you_mean, update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.finetuned import Finetuned

IMAGE = "image"  # the task of pictures, which have a run of their own
TRANSCRIBE = "transcribe"  # likewise of sound


def finetune(
    model: str | Path,
    task: str,
    *,
    tokenizer: str | Path | None = None,
    out: str | Path | None = None,
    set: tuple[str, ...] = (),
    allow_changed_data: bool = False,
    **settings: Any,
) -> Finetuned:
    """Fine-tune an encoder; in a folder that holds the same run already, go on with it.

    `model` is a folder, a name on the hub, or a preset, which begins from nothing and needs a tokenizer; `settings` are
    the fields of FinetuningSettings: train, dev, test, reading, epochs, ...; `set` has `path=value` changes to the
    model's config.
    """
    from regard.commands.encoders import encoder_of
    from regard.commands.finetuning_run import FinetuningRun
    from regard.commands.label_options import check_label_options, task_for
    from regard.commands.settings import FINETUNING
    from regard.commands.vector_start import begin_from, vectors_for
    from regard.tasks.finetuned import TASKS

    if task == IMAGE:
        from regard.commands.pictures import finetune_pictures

        how = {"out": out, "set": set, "allow_changed_data": allow_changed_data}
        return finetune_pictures(model, tokenizer=tokenizer, **how, **settings)
    if task == TRANSCRIBE:
        from regard.commands.transcribing_run import TranscribingRun

        folder = Path(out) if out else Path("runs") / f"{task}-{Path(model).name}"
        told = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
        return TranscribingRun(update(FINETUNING, told), str(model), folder).write(set, allow_changed_data)
    if task not in TASKS:
        raise UsageProblem(f"no task is called {task!r}; {did_you_mean(task, (*TASKS, IMAGE, TRANSCRIBE))}")
    told = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    chosen = update(FINETUNING, told)
    task = task_for(task, chosen.train, chosen.reading)
    check_label_options(task, chosen.reading)
    folder = Path(out) if out else Path("runs") / f"{task}-{Path(model).name}"
    run = FinetuningRun(chosen, str(model), task, folder)
    vectors = vectors_for(run.settings.vectors, str(model), set)
    reader, config = encoder_of(model, tokenizer, set, run.settings.seed)
    begin_from(vectors, reader.model.encoder.embed, reader.tokenizer)
    return run.go(reader, config, allow_changed_data)
