"""How a training is going: a bar on a terminal, timed lines elsewhere, and metrics.jsonl always."""

from __future__ import annotations

import json
import math
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from regard.checkpoints.files import explained, write_file

Record = dict[str, Any]  # {"step", "loss", "rate", "norm", "tokens_per_second", ...} or {"step", "evaluation": {...}}


class Metrics:
    """The records of a run, a JSON line each."""

    def __init__(self, path: Path):
        self.path = path

    def rewind(self, step: int) -> None:
        """Forget what came after a step, so that a resumed run does not tell it twice, and a line cut by a kill."""
        if self.path.exists():
            kept = [line for line in self.path.read_bytes().splitlines(keepends=True) if _told_by(line, step)]
            write_file(self.path, b"".join(kept))

    def write(self, record: Record) -> None:
        line = json.dumps(_plain(record)).encode() + b"\n"
        with explained(self.path, len(line)), open(self.path, "ab") as file:
            file.write(line)


def _told_by(line: bytes, step: int) -> bool:
    """What was said of final weights (see `weights`) is said again at the end of the resumed run."""
    try:
        record = json.loads(line)
        return line.endswith(b"\n") and record["step"] <= step and "weights" not in record
    except (ValueError, KeyError, TypeError):
        return False


def _plain(value: Any) -> Any:
    """JSON has no word for nan and the infinities: they become strings, not lies."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Reporter:
    """Is told how a training is going.  This one keeps it to itself."""

    def begin(self, step: int, steps: int) -> None: ...

    def tell(self, record: Record) -> None: ...

    def say(self, text: str) -> None: ...

    def end(self) -> None: ...


class Lines(Reporter):
    """A timed line on stderr for each record."""

    def begin(self, step: int, steps: int) -> None:
        self.clock = Clock(step, steps)

    def tell(self, record: Record) -> None:
        left = "" if "evaluation" in record else f"  {self.clock.left(record['step'])} left"
        self.say(f"step {record['step']}/{self.clock.steps}  {told(record)}{left}")

    def say(self, text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


class Bar(Reporter):
    """A progress bar on a terminal's stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = [BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False)]
        self.progress = Progress(*columns, console=Console(stderr=True))

    def begin(self, step: int, steps: int) -> None:
        self.clock = Clock(step, steps)
        self.task = self.progress.add_task("", total=steps, completed=step)
        self.progress.start()

    def tell(self, record: Record) -> None:
        if "evaluation" in record:
            return self.say(f"step {record['step']}  {told(record)}")
        description = f"{told(record)}  {self.clock.left(record['step'])} left"
        self.progress.update(self.task, completed=record["step"], description=description)

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        self.progress.stop()


class Clock:
    """How long the remaining steps will take, at the pace since this process began."""

    def __init__(self, step: int, steps: int):
        self.step, self.steps, self.start = step, steps, time.monotonic()

    def left(self, step: int) -> timedelta:
        pace = (time.monotonic() - self.start) / max(step - self.step, 1)
        return timedelta(seconds=round(pace * (self.steps - step)))


def default_reporter() -> Reporter:
    return Bar() if sys.stderr.isatty() else Lines()


def told(record: Record) -> str:
    """The numbers of a record in words."""
    if "evaluation" in record:
        numbers = (f"{name} {value:.4g}" for name, value in record["evaluation"].items())
        return "  ".join([record.get("weights", "evaluation"), *numbers])
    speed = f"{record['tokens_per_second']:,.0f} tokens/s"
    return f"loss {record['loss']:.4f}  rate {record['rate']:.2e}  norm {record['norm']:.2f}  {speed}"
