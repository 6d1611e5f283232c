"""Being asked to stop: the first Ctrl-C or SIGTERM is heard and waited with, the second has its usual effect."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """`with Stopping() as stopping:` and look at `stopping.signal` now and then."""

    signal = 0  # the number of the signal that came

    def __enter__(self) -> Stopping:
        self.before: dict[int, Any] = {}
        try:
            for number in SIGNALS:
                self.before[number] = signal.signal(number, self.heard)
        except ValueError:  # not the main thread: whoever owns that one hears the signals
            pass
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def heard(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        self.__exit__()
        print(f"{signal.Signals(number).name}: saving after this step. Again: quit now.", file=sys.stderr, flush=True)
