"""generate: what a language model writes after prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_reader

if TYPE_CHECKING:
    from regard.decoding.generate import Writing, Written
    from regard.layers.lowered import Precision
    from regard.tasks.reader import Reader
    from regard.tasks.writer import Writer

TOGETHER = 64  # prompts written on at once, so that a stream of any length needs bounded memory


def generate(
    model: str | Path | Reader,
    prompts: Iterable[str],
    how: Writing | None = None,
    device: str | None = None,
    precision: Precision = "float32",
) -> Iterator[Written]:
    """What follows each prompt, in their order, as they come; `Writer.stream` hands out its parts as they are
    written."""
    from regard.decoding.generate import WRITING

    writer = load_writer(model, device, precision)
    for some in portions(prompts):
        yield from writer.generate(some, how or WRITING)


def load_writer(model: str | Path | Reader, device: str | None = None, precision: Precision = "float32") -> Writer:
    from regard.tasks.writer import Writer

    reader = load_reader(model, device, precision)
    return reader if isinstance(reader, Writer) else Writer.of(reader)


def portions(prompts: Iterable[str]) -> Iterator[list[str]]:
    prompts = iter(prompts)
    while some := list(islice(prompts, TOGETHER)):
        yield some
