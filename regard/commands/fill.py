"""fill: words for where a text hides one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_reader
from regard.errors import Problem, UsageProblem

if TYPE_CHECKING:
    from regard.layers.lowered import Precision
    from regard.tasks.reader import Filled, Reader


def fill(
    model: str | Path | Reader,
    text: str,
    *,
    best: int = 5,
    device: str | None = None,
    precision: Precision = "float32",
) -> list[list[Filled]]:
    """For each [MASK] of a text, the words that fit best, with their probabilities."""
    return load_reader(model, device, precision).fill(text, best)


def fill_lines(
    model: str | Path | Reader,
    lines: Iterable[str],
    *,
    best: int = 5,
    device: str | None = None,
    precision: Precision = "float32",
) -> Iterator[list[list[Filled]]]:
    """The same for each line, as they come; nothing for a blank one."""
    reader = load_reader(model, device, precision)
    for number, line in enumerate(lines, 1):
        try:
            yield reader.fill(line, best) if line.strip() else []
        except UsageProblem as problem:
            raise Problem(f"line {number}: {problem}") from None
