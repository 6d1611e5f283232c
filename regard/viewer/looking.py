"""look: a model reads a text, goes on with it or translates it, and is watched on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention.attention import Attention
from regard.errors import Problem, UsageProblem
from regard.layers.recurrent import Recurrent, Way
from regard.tasks.finetuned import Finetuned
from regard.tasks.reader import Reader
from regard.tasks.translate import Translator
from regard.tasks.writer import Writer
from regard.viewer.hearing import listener_in, look_at_sound
from regard.viewer.look import Look
from regard.viewer.reading import look_at_reading, look_at_writing, reads_on
from regard.viewer.seeing import look_at_picture, picture_reader
from regard.viewer.seen import LONGEST
from regard.viewer.translating import look_at_translation


def look(
    model: Reader | Finetuned | Translator,
    text: str,
    *,
    second: str | None = None,  # of a pair
    target: str | Sequence[int] | None = None,  # a translation or its tokens, instead of the model's own
    write: int = 0,  # tokens that a language model goes on with before it is looked at
    name: str = "",
) -> Look:
    """What a model did with a text: where it looked, how its states changed, what it made of it."""
    check_something_to_see(model)
    check_text(text, "text")
    if listener_in(model):
        check_unasked("a model of sound", second=second, target=target, write=write)
        return look_at_sound(model, text, name)  # type: ignore[arg-type]
    if picture_reader(model):
        check_unasked("a model that reads pictures", second=second, target=target, write=write)
        return look_at_picture(model, text, name)
    if isinstance(model, Translator):
        check_unasked("a translator", second=second, write=write)
        return look_at_translation(model, text, target, name)
    check_unasked("a model that does not translate", target=target)
    if isinstance(model, Writer) and reads_on(model):
        check_unasked("a language model, which reads one text", second=second)
        if not 0 <= write <= LONGEST:
            raise UsageProblem(f"write={write}: a number of tokens from 0 to {LONGEST:,} was expected")
        return look_at_writing(model, text, write, name)
    check_unasked("a model that does not write", write=write)
    return look_at_reading(model, text, second, name)


def check_something_to_see(model: Any) -> None:
    """A bigram, and a word's vector, know no other token."""
    known = isinstance(model, Reader | Finetuned | Translator) or picture_reader(model) or listener_in(model)
    parts = model.model.modules() if known else ()
    if not any(isinstance(part, Attention | Recurrent | Way) for part in parts):
        raise Problem(
            f"there is nothing to look at in a {family_of(model)}: it has no attention and no states that go from word "
            "to word; give a Transformer or a recurrent model"
        )


def family_of(model: Any) -> str:
    if isinstance(model, Translator):
        return type(model.model).__name__
    reader: Any = model.reader if isinstance(model, Finetuned) else model
    known = isinstance(reader, Reader) or picture_reader(model) or listener_in(model)
    return str(reader.published.theirs["model_type"]) if known else type(model).__name__


def check_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise UsageProblem(f"the {what} is a {type(text).__name__}; give a text")
    if not text.strip():
        raise Problem(f"the {what} is empty: there is nothing to look at; give one with a word")


def check_unasked(what: str, **wishes: Any) -> None:
    for wish, value in wishes.items():
        if value not in (None, 0):
            raise UsageProblem(f"{wish}={value!r} was asked of {what}; leave it out, or give another model")
