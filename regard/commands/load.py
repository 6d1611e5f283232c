"""load: a saved model, ready for its task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.box import boxes
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.layers.lowered import Precision
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator


def load(
    model: str | Path,
    device: str | None = None,
    precision: Precision = "float32",
    *,
    revision: str | None = None,
    ignore: Sequence[str] = (),
) -> Translator | Reader | Finetuned:
    """The model of a folder (one that holds config.json, or a run's), of a name in the box, or of one on the hub, which
    is fetched unless the cache has it.  Encoders read, translators translate, and what was fine-tuned does its task.
    Of a run that has not finished it is the best checkpoint so far, which is said on stderr.  In bf16, or on a CPU in
    int8, it is faster, and can be neither trained nor saved.  A `revision` is a commit, a tag or a branch on the hub,
    which NAME@REVISION names too.  Tensors whose names match a pattern of `ignore`, such as "lm_head.*", are left
    out."""
    from regard.checkpoints.hub import at_revision
    from regard.tasks.precision import in_precision

    if revision and (Path(model).is_dir() or str(model) in boxes()):
        raise UsageProblem(f"{model} is a folder, and has no revisions; leave out {revision}")
    return in_precision(opened(at_revision(str(model), revision), device, ignore), precision)


def opened(
    model: str | Path, device: str | None = None, ignore: Sequence[str] = ()
) -> Translator | Reader | Finetuned:
    """The model as it was saved."""
    from regard.checkpoints.hub import fetched
    from regard.models import FAMILIES, HEARERS, PUBLISHED_TRANSLATORS, SEERS
    from regard.models.folder import CONFIG, read_json
    from regard.tasks.finetuned import finetuned
    from regard.tasks.reader import Reader
    from regard.tasks.sentence_folder import encoder_folder
    from regard.tasks.translate import Translator
    from regard.tasks.writer import Writer

    folder = Path(model) if Path(model).is_dir() else boxes().get(str(model)) or fetched(str(model))
    if not (folder / CONFIG).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    elif (folder / "run.json").exists():
        from regard.commands.stopped_run import open_stopped

        return open_stopped(folder, device)
    family, _ = read_json(encoder_folder(folder) / CONFIG)
    if family in (*FAMILIES, *PUBLISHED_TRANSLATORS):
        return Translator.load(folder, device, ignore)
    if family in SEERS:
        from regard.tasks.image import PictureReader, seen

        return seen(PictureReader.load(folder, device, ignore))  # type: ignore[return-value]
    if family in HEARERS:
        from regard.tasks.listener import Listener
        from regard.tasks.transcribe import transcriber

        return transcriber(Listener.load(folder, device, ignore))  # type: ignore[return-value]
    reader = Reader.load(folder, device, ignore)
    found = finetuned(reader)
    return Writer.of(reader) if found is reader and reader.tells else found


def load_translator(
    model: str | Path | Translator, device: str | None = None, precision: Precision = "float32"
) -> Translator:
    from regard.tasks.translate import Translator

    found = load(model, device, precision) if isinstance(model, str | Path) else model
    if not isinstance(found, Translator):
        raise Problem(f"{model} is an encoder, and cannot translate; give the folder of a translator")
    return found


def load_reader(
    model: str | Path | Reader | Finetuned, device: str | None = None, precision: Precision = "float32"
) -> Reader:
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator

    found = load(model, device, precision) if isinstance(model, str | Path) else model
    found = found.reader if isinstance(found, Finetuned) else found
    if not isinstance(found, Reader):
        what = "is a translator" if isinstance(found, Translator) else "does not read text"
        raise Problem(f"{model} {what}; give the folder of an encoder, such as BERT")
    return found


def load_finetuned(
    model: str | Path | Reader | Finetuned,
    device: str | None = None,
    tasks: Sequence[str] = (),
    precision: Precision = "float32",
) -> Finetuned:
    """A model that was fine-tuned, for one of these tasks where some are named."""
    found, name = (
        (load(model, device, precision), str(model)) if isinstance(model, str | Path) else (model, "the model")
    )
    return finetuned_of(found, name, tasks)


def finetuned_of(found: Translator | Reader | Finetuned, name: str, tasks: Sequence[str] = ()) -> Finetuned:
    """What was loaded by this name, if it was fine-tuned."""
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.translate import Translator

    if isinstance(found, Translator):
        raise Problem(f"{name} is a translator; give the folder of an encoder that was fine-tuned")
    if not isinstance(found, Finetuned):
        raise Problem(f"{name} was not fine-tuned; do that first: regard finetune {name} TASK --train FILE --dev FILE")
    if tasks and found.name not in tasks:
        raise Problem(f"{name} was fine-tuned to {found.name}; this needs one that can {' or '.join(tasks)}")
    return found
