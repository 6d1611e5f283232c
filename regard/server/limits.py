"""How much a server takes on before it says no."""

from __future__ import annotations

from dataclasses import dataclass, fields

from regard.errors import UsageProblem

HEAD = 16_384  # bytes of a request's line and headers


@dataclass(frozen=True)
class Limits:
    """All of it is checked, so that no wish of a client can fill the memory or hold a place for ever."""

    requests: int = 256  # worked on or waiting, over all models; the next is told to come again (429)
    tokens: int = 131_072  # that wait for one model
    batch: int = 0  # tokens computed together; 0: what suits the device
    inputs: int = 2048  # texts of one request
    body: int = 2 * 2**20  # bytes of a request
    patience: float = 10.0  # seconds within which a request's head must have come, and then its body
    keep_alive: float = 30.0  # seconds that a connection may be idle between two requests
    line_tokens: int = 512  # of one line that is translated
    deadline: float = 60.0  # seconds within which it must be answered
    grace: float = 30.0  # seconds for what was accepted, once the server is told to end

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < (0 if field.name in ("batch", "grace") else 1e-3):
                raise UsageProblem(f"{field.name} {value}: expected a number above 0")
        if self.batch > self.tokens:
            raise UsageProblem(f"batch {self.batch} is more than the {self.tokens} tokens that may wait; ask for fewer")
