"""A part of a recipe in a process of its own: it begins with nothing in memory, and says how it goes in a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import run


def apart(recipe: str, out: Path, name: str, words: Sequence[object]) -> None:
    """`python -m recipes.RECIPE WORDS`, whose progress goes to OUT/logs/NAME.log."""
    log = out / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        run([sys.executable, "-m", f"recipes.{recipe}", *map(str, words)], check=True, stderr=file)
