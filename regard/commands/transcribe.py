"""transcribe: what is said in recordings, written down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.load import load, load_finetuned
from regard.errors import Problem

if TYPE_CHECKING:
    from regard.decoding.ctc import PrefixBeam
    from regard.layers.lowered import Precision
    from regard.tasks.finetuned import Finetuned
    from regard.tasks.transcribe import Transcript

TOGETHER = 64  # recordings that are heard at once


def transcribe(
    model: str | Path | Finetuned,
    sounds: Iterable[Any],
    how: PrefixBeam | None = None,
    *,
    language_model: str | Path | None = None,
    device: str | None = None,
    precision: Precision = "float32",
) -> Iterator[Transcript]:
    """A transcript for each recording, as they come: a path, what a file holds, or samples at the model's rate.

    A language model (a folder whose model tells what comes next, counted bigrams among them) judges the words of a
    search, so `how` should be one."""
    finetuned, sounds = load_finetuned(model, device, ("transcribe",), precision), iter(sounds)
    task: Any = finetuned.task
    task.how, task.judge_words = how or task.how, judge_of(task, language_model, device) if language_model else None
    while some := list(islice(sounds, TOGETHER)):
        yield from finetuned.predict(some)


def judge_of(task: Any, language_model: str | Path, device: str | None) -> Any:
    """A language model as a judge of words.  Letters that are upper case alone are judged as lower case."""
    from regard.tasks.transcribe import WordJudge
    from regard.tasks.writer import Writer

    found = load(language_model, device)
    if not isinstance(found, Writer):
        raise Problem(
            f"{language_model} does not tell what comes next; give a language model, such as bigrams or GPT-2"
        )
    writer, is_upper = found, task.letters.cased("a") == "A"

    def decode(letters: Any) -> str:
        text = task.letters.decode(letters)
        return text.lower() if is_upper else text

    return WordJudge(
        decode, lambda before, word: writer.log_probabilities([before], [word], window=True)[0].log_probability
    )
