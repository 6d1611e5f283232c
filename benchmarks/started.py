"""`regard` as a process that can be waited for and killed: from a new interpreter, or from one that is warm.

A warm one is forked from a server that has imported torch and the commands and has done nothing else: a process of its
own, which runs the same command, seconds sooner."""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO

TAIL = 600  # characters of a log that are told


class Started:
    """A command under way, whose output goes to a file."""

    def __init__(self, words: Sequence[str], log: Path, fresh: bool):
        self.command, self.log = " ".join(["regard", *words]), log
        self.inner: subprocess.Popen | multiprocessing.process.BaseProcess
        if fresh:
            with log.open("ab") as file:
                self.inner = subprocess.Popen([sys.executable, "-m", "regard", *words], stdout=file, stderr=file)
        else:
            self.inner = warm().Process(target=call, args=(list(words), str(log), os.environ.get("OMP_NUM_THREADS")))
            self.inner.start()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it has not ended in so many seconds."""
        if isinstance(self.inner, subprocess.Popen):
            try:
                return self.inner.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
        self.inner.join(seconds)
        return self.inner.exitcode

    def kill(self) -> None:
        """By SIGKILL, which no process can catch."""
        self.inner.kill()
        self.wait(60)

    def tail(self) -> str:
        return self.log.read_text(errors="replace").strip()[-TAIL:] if self.log.exists() else ""


def start(words: Sequence[object], log: Path, fresh: bool = False) -> Started:
    return Started([str(word) for word in words], log, fresh)


@cache
def warm() -> ForkServerContext:
    import regard.commands

    context = multiprocessing.get_context("forkserver")
    commands = [f"regard.commands.{module.name}" for module in pkgutil.iter_modules(regard.commands.__path__)]
    context.set_forkserver_preload(["torch", "regard.cli", *commands])
    return context


def call(words: list[str], log: str, threads: str | None) -> None:
    """What the console script does, in a process of its own whose output goes to a file.  The server it is forked from
    may have been started with another number of threads, and weights differ with that in their last bits."""
    import torch

    if threads:
        torch.set_num_threads(int(threads))
    with open(log, "ab", buffering=0) as file:
        redirect(file)
    sys.argv = ["regard", *words]
    from regard.cli import main

    main()


def redirect(file: IO[bytes]) -> None:
    for stream in (1, 2):
        os.dup2(file.fileno(), stream)
