"""pretrain: from plain text to a model in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import update
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from regard.tasks.listener import Listener
    from regard.tasks.reader import Reader
    from regard.tasks.translate import Translator


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
) -> Reader | Translator | Listener:
    """Pretrain an encoder, a language model, a T5 or a model of sound; in a folder that holds the same run already, go
    on with it.

    `model` is a preset, or a folder or a name on the hub to go on from; a preset learns its vocabulary from the text
    unless a tokenizer is given.  A `teacher` is an encoder to be distilled.  `corpus` is where the encoded text goes,
    so that runs can share it.  `settings` are the fields of PretrainingSettings: dev, objective, steps, ...
    """
    from regard.commands.counting_run import count
    from regard.commands.hearing_run import HearingRun
    from regard.commands.language_run import LanguageRun, is_language
    from regard.commands.listeners import is_sound
    from regard.commands.pretraining_run import PretrainingRun
    from regard.commands.settings import PRETRAINING
    from regard.commands.spans_run import SpansRun, is_spans
    from regard.commands.vector_start import begin_from, vectors_for

    if not texts:
        raise UsageProblem("there is nothing to pretrain on; name files of text")
    folder = Path(out) if out else Path("runs") / f"pretrain-{Path(model).name}"
    told = {name: [str(p) for p in value] if name == "dev" else value for name, value in settings.items()}
    told["vectors"] = str(told.get("vectors", ""))
    wanted = update(PRETRAINING, {"texts": [str(path) for path in texts], **told})
    vectors = vectors_for(wanted.vectors, str(model), set)
    place = Path(corpus) if corpus else folder / "corpus"
    if is_sound(model, wanted.objective):
        if teacher or tokenizer or vectors:
            raise UsageProblem("a model of sound has no use for a teacher, a tokenizer or word vectors; leave them out")
        return HearingRun(wanted, str(model), folder, place).hear(set, allow_changed_data)
    if is_spans(str(model), wanted.objective):
        if teacher:
            raise UsageProblem(f"spans have no use for a teacher; leave out {teacher}")
        spans = SpansRun(wanted, str(model), folder, place)
        translator = spans.translator(tokenizer, set)
        begin_from(vectors, translator.model.embed, translator.source)
        return spans.train(translator, allow_changed_data)
    if model == "bigram":
        if set:
            raise UsageProblem(f"--set {' '.join(set)}: bigrams are counted, and have nothing to set; leave it out")
        return count(LanguageRun(wanted, str(model), folder, place), tokenizer)
    kind = LanguageRun if is_language(str(model), wanted.objective) else PretrainingRun
    run = kind(wanted, str(model), folder, place)
    reader, config = run.reader(tokenizer, teacher, set)
    begin_from(vectors, reader.model.encoder.embed, reader.tokenizer)
    return run.go(reader, config, teacher, allow_changed_data)
