"""Batches fetched by a thread a little before they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from regard.objectives.objective import Batch

DEPTH = 4  # batches in waiting: enough to hide one slow one, few enough to cost no memory


class Batches(Protocol):
    """Micro-batches, numbered over all epochs; each is a pure function of its position."""

    def at(self, position: int) -> Batch: ...

    def epoch_of(self, position: int) -> tuple[int, int]: ...


def ahead(
    batches: Batches, positions: Iterable[int], ready: Callable[[Batch], Batch] | None = None
) -> Generator[tuple[int, Batch], None, None]:
    """Each position with its batch, in order, made ready by the thread too.  Close it to stop the thread."""

    def fetched(position: int) -> Batch:
        batch = batches.at(position)
        return batch if ready is None else ready(batch)

    pool = ThreadPoolExecutor(1, "batches")
    waiting: deque = deque()
    try:
        for position in positions:
            waiting.append((position, pool.submit(fetched, position)))
            if len(waiting) > DEPTH:
                first, batch = waiting.popleft()
                yield first, batch.result()
        for first, batch in waiting:
            yield first, batch.result()
    finally:
        pool.shutdown(cancel_futures=True)
