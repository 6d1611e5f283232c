"""fill: words for where a text hides one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_reader

if TYPE_CHECKING:
    from regard.tasks.reader import Filled, Reader


def fill(model: str | Path | Reader, text: str, *, best: int = 5, device: str | None = None) -> list[list[Filled]]:
    """For each [MASK] of a text, the words that fit best, with their probabilities."""
    return load_reader(model, device).fill(text, best)
