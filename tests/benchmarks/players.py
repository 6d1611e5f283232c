"""Contenders that need no torch, in a module of their own since each is started in a new process; and a pipe for one
that is played in this process."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

from benchmarks.contest import Turns


def counting(plan, turns):
    turns.show([[1.0, plan.rate]])
    for stretch in range(plan.stretches):
        turns.begin()
        turns.end(tokens=stretch + 1)


def different(plan, turns):
    turns.show([[2.0, plan.rate]])


def failing(plan, turns):
    sys.exit(3)


def silent(plan, turns):
    time.sleep(60)


class Heard:
    """What a contender says; it is always its turn."""

    def __init__(self):
        self.said: list[Any] = []

    def send(self, something):
        self.said.append(something)

    def recv(self):
        return "go"


def played(work, plan) -> list[Any]:
    """What it showed, and its stretches."""
    heard = Heard()
    with suppress(SystemExit):
        work(plan, Turns(heard, False))  # type: ignore[arg-type]
    return heard.said
