"""Contenders one after the other, each in a process that has the device to itself: for work that fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.contest import Contender, Entry, Outputs, Stretch, compare, ready
from regard.errors import Problem


def one_by_one(entries: Iterable[Entry], limit: float, say: Callable[[str], None]) -> dict[str, list[Stretch]]:
    """The stretches of each contender.  One that fails, is silent for longer than the limit, or computes something
    else than the first, is told of and left out."""
    found: dict[str, list[Stretch]] = {}
    first: tuple[str, Outputs] | None = None
    for entry in entries:
        try:
            with ready([entry], limit) as [contender]:
                if contender.outputs:  # one that shows nothing computes something else
                    if first:
                        compare(*first, contender.name, contender.outputs)
                    first = first or (contender.name, contender.outputs)
                found[entry[0]] = finished(contender, entry[2].stretches, say)
        except Problem as problem:
            say(f"left out: {problem}")
    return found


def finished(contender: Contender, stretches: int, say: Callable[[str], None]) -> list[Stretch]:
    for number in range(stretches):
        took = contender.turn()
        say(f"{number}: {contender.name}, {took.tokens:,} tokens in {took.seconds:.2f} s")
    return contender.stretches
