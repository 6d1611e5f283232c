"""Decoding step by step: whoever takes the steps can do something else in between, and give up rows or all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Found = TypeVar("Found")
Steps = Generator[None, None, Found]  # yields after each decoding step; returns what was found
Abandoned = Callable[[int], bool]  # whether nobody waits any more for the row of this number


def run_to_end(steps: Steps[Found]) -> Found:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
