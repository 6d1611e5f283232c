"""What a resumed run must know, what it may not change, and the lock that keeps a run folder to one process."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import regard
from regard.errors import Problem

FORMAT = 1  # of a checkpoint; another number is refused
SAFE = {  # how long a run goes on, and what is done on the way
    "steps", "epochs", "warmup", "accumulate", "launch", "report_every", "evaluate_every", "save_every",
    "patience", "average", "keep", "unfreeze",
}  # fmt: skip


@dataclass
class Progress:
    """Where a run has come to: all that a resumed one must know beside weights and optimizer."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # spent in steps
    best: float | None = None
    best_step: int | None = None
    waited: int = 0  # evaluations since the best
    since: dict[str, float] = field(default_factory=dict)  # sums since the last report

    def add(self, sums: dict[str, float]) -> None:
        """What a step came to, or how long it took."""
        self.tokens += int(sums.get("tokens", 0))
        self.seconds += sums.get("seconds", 0.0)
        for name, value in sums.items():
            self.since[name] = self.since.get(name, 0.0) + value


@dataclass(frozen=True)
class Terms:
    """What must be the same for a run to go on as it began."""

    config: dict[str, Any]
    fingerprint: str  # of the data
    width: int  # micro-batches a step, over all ranks

    def check(self, state: dict[str, Any], place: Path, allow_changed_data: bool) -> None:
        if state.get("format") != FORMAT:
            raise Problem(
                f"{place} was written by regard {state.get('regard')} in format {state.get('format')}; this is regard "
                f"{regard.__version__}, which reads format {FORMAT}. Use that version, or train in a new folder."
            )
        if state["fingerprint"] != self.fingerprint and not allow_changed_data:
            raise Problem(
                f"{place} was trained on other data (fingerprint {state['fingerprint']}, now {self.fingerprint}). "
                "Give the same files, train in a new folder, or allow changed data to go on all the same."
            )
        changes = differences(state["config"], json.loads(json.dumps(self.config)))
        if state["width"] != self.width:
            changes.append(f"micro-batches a step (accumulate x ranks): {state['width']}, now {self.width}")
        if changes:
            raise Problem(f"{place} has {'; '.join(changes)}. Go on as it began, or in another folder.")


def differences(before: dict[str, Any], now: dict[str, Any], place: str = "") -> list[str]:
    """Each setting that differs and may not, in words.  One that an earlier version did not know was off: what is
    added later has an empty default."""
    found = []
    for name in sorted((before.keys() | now.keys()) - SAFE):
        old, new = before.get(name), now.get(name)
        if name not in before and not new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{place}{name}.")
        elif old != new:
            found.append(f"{place}{name}={old}, now {new}")
    return found


def wait_for(path: Path, seconds: float = 60) -> None:
    """A shared disk may show a rank late what another has written."""
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise Problem(f"{path} is not seen from {socket.gethostname()}. Give a folder on a disk all ranks share.")
        time.sleep(0.2)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder.  The system lets go of it when this process ends, however it ends."""
    lock, holder = FileLock(folder / "lock"), folder / "lock-holder.json"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Problem(
            f"{folder} is in use by {described(holder)}. Wait for it, stop it, or train in another folder."
        ) from None
    try:
        holder.write_text(json.dumps({"process": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        lock.release()


def described(holder: Path) -> str:
    """The process that holds a run folder; it may have been killed while it wrote this file."""
    try:
        return "process {process} on {host}".format(**json.loads(holder.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
