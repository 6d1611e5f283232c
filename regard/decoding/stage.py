"""Slots in which texts are written side by side, step by step: a step is the same kernels whatever is in the slots, and
on a GPU one launch.  The host is told of a step while the next one runs.

Letters: S slots, K beams of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.kernels import try_kernels
from regard.decoding.reading import Reading
from regard.decoding.scribe import Scribe
from regard.layers.fixed import Fixed
from regard.layers.longest import longest_row
from regard.layers.stack import one_each
from regard.recording import recording
from regard.rows import Tokens

WARM_UP = 3  # steps before one is recorded: libraries make themselves ready in the first ones
FEWEST = 32  # places that are looked at; then twice as many, and so on
SHARE, ROOM = 16, 2**32  # keys and values of a stage: a part of a GPU's memory; of a CPU's, so many bytes
MOST = 1024  # rows of a stage
KERNELS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]  # the others know no mask, or make a plan for every shape
AT_ONCE = 4096  # tokens of sources that are read by one launch: more take a device longer than its host


class Stage:
    """What all kinds of writing have in common: a step that may be recorded, and how the host is told of it."""

    def __init__(self, scribe: Scribe, slots: int, beams: int, places: int):
        self.scribe, self.slots, self.beams, self.places = scribe, slots, beams, places
        self.device, self.model = scribe.device, scribe.hand
        try_kernels(self.device)
        self.fixed = Fixed.like(scribe.example, slots, beams, places)
        self.held: list[Any] = [
            one_each(slots * beams, self.device)
        ]  # what graphs read that might be forgotten elsewhere
        self.going = torch.zeros(slots, dtype=torch.bool, device=self.device)  # rows that are being written
        self.readings: dict[tuple[int, int], Reading] = {}  # by tokens, and places
        # a step, by how many places are looked at; and a reading
        self.runs: dict[int | tuple[int, int], Callable[[], None]] = {}
        self.told: Tensor = self.going  # what the host is told of a step
        self.launched = 0  # steps
        self.behind = deque[tuple[int, Tensor, Any]]()  # of which the host has not been told yet
        self.envelopes = list[tuple[Tensor, Any]]()  # in which it was told of earlier ones
        self.records, self.longest = scribe.records, longest_row(self.model)
        self.lag = 2 if self.records else 0  # steps that may be under way while the host thinks

    def begin(self, slots: Sequence[int], texts: Sequence[Any]) -> None:
        """Let texts begin in slots."""
        raise NotImplementedError

    def step(self, places: int) -> None:
        """One more token of each row that is going; nothing of the others.  Over tensors that stay where they are."""
        raise NotImplementedError

    def found(self, slots: Tensor) -> list[Any]:  # (n,)
        """What was written in slots, if that stays there until it is asked for."""
        raise NotImplementedError

    def run(self, places: int) -> None:
        with sdpa_kernel(KERNELS):
            self.step(places)

    def logits(self, tokens: Tensor, places: int) -> Tensor:  # (S * K,) -> (S * K, V)
        logits, _ = self.model.step(tokens, self.fixed.within(places))
        return logits

    @torch.inference_mode()
    def launch(self, places: int) -> None:
        """A step in which rows have up to so many places."""
        places = min(doubled(places), self.places)
        if places not in self.runs:
            self.runs[places] = self.recorded_step(places) if self.records else partial(self.run, places)
        self.runs[places]()
        self.behind.append((self.launched, *self.post()))
        self.launched += 1

    def post(self) -> tuple[Tensor, Any]:
        """What the host will be told of the step, and when."""
        if not self.records:
            return self.told.clone(), None
        told, event = self.envelopes.pop() if self.envelopes else self.envelope()
        told.copy_(self.told, non_blocking=True)
        event.record()
        return told, event

    def envelope(self) -> tuple[Tensor, Any]:
        return torch.empty_like(self.told, device="cpu", pin_memory=True), torch.cuda.Event()

    def look(self) -> tuple[int, list[Any]]:
        """What the host is told of each slot in the oldest step that it does not know, and which step that is."""
        number, told, event = self.behind.popleft()
        if event is not None:
            event.synchronize()
            self.envelopes.append((told, event))
        return number, told.T.tolist() if told.ndim > 1 else told.tolist()

    def recorded_step(self, places: int) -> Callable[[], None]:
        going = self.going.clone()
        self.going.fill_(False)  # so that the steps it takes to record one change nothing
        launch = self.recorded(partial(self.run, places))
        self.going.copy_(going)
        return launch

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Work as one launch; it is done a few times before."""
        beside, now = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        beside.wait_stream(now)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                work()
            graph = torch.cuda.CUDAGraph()
            with recording(graph, self.scribe.pool, beside):
                work()
        now.wait_stream(beside)
        return graph.replay

    def read(self, slots: Sequence[int], texts: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor]:  # (n,) each
        """Let rows begin in slots; these, their first tokens, and how many may follow, which are sent before the device
        is busy with what it reads."""
        numbers = [slots, [text.first for text in texts], [text.left for text in texts]]
        where, first, limits = torch.tensor(numbers, device=self.device)
        sources = [text.source for text in texts]
        if not self.read_at_once(slots, sources):
            self.read_sources(where, sources)
        return where, first, limits

    def read_at_once(self, slots: Sequence[int], sources: Sequence[Sequence[int]]) -> bool:
        """What a translator looks back at, by one launch, if it is little."""
        tokens, places = doubled(sum(map(len, sources))), doubled(max(map(len, sources)))
        if self.scribe.reads or tokens > AT_ONCE or places > min(self.places, self.longest):
            return False
        key = tokens, places
        if key not in self.readings:
            self.readings[key] = Reading(self.model, self.fixed, *key)
        self.readings[key].tell(slots, sources)
        if key not in self.runs:
            work = partial(self.run_reading, self.readings[key])
            self.runs[key] = self.recorded(work) if self.records else work
        self.runs[key]()
        return True

    def run_reading(self, reading: Reading) -> None:
        with sdpa_kernel(KERNELS), self.scribe.eagerly():
            reading.run()

    def read_sources(self, slots: Tensor, sources: Sequence[Sequence[int]]) -> None:  # (n,)
        """What stands before rows; of those that begin alike it is read once."""
        number = {source: place for place, source in enumerate(dict.fromkeys(map(tuple, sources)))}
        tokens = Tokens.of(list(number), self.device)
        if self.scribe.reads and not tokens.rows.total:  # nothing stands before them
            self.fixed.begin(slots, torch.zeros(len(slots) * self.beams, dtype=torch.long, device=self.device))
            return
        with self.scribe.eagerly():
            state = self.model.start(tokens, self.beams)
        if len(number) < len(sources):
            origin = torch.tensor([number[tuple(source)] for source in sources], device=self.device)[:, None]
            state = state.select((origin * self.beams + torch.arange(self.beams, device=self.device)).flatten())
        self.fixed.put(slots, state)

    def halt(self, slots: Sequence[int]) -> None:
        """Write no more in these slots."""
        self.going[torch.tensor(slots, device=self.device)] = False

    @torch.inference_mode()
    def stop(self) -> None:
        """Write no more at all."""
        self.envelopes += [(told, event) for _, told, event in self.behind if event]
        self.behind.clear()
        self.going.fill_(False)


def doubled(number: int) -> int:
    """A power of two that is not below it, from the fewest places on."""
    return max(FEWEST, 1 << max(number - 1, 0).bit_length())


def slots_for(scribe: Scribe, count: int, beams: int, places: int) -> int:
    """How many texts are written side by side: a power of two, so that few shapes are recorded."""
    bytes_each = scribe.place * places * (beams if scribe.reads else beams + 1)  # its source takes places too
    room = torch.cuda.get_device_properties(scribe.device).total_memory // SHARE if scribe.records else ROOM
    most = max(1, min(room // bytes_each, MOST // beams))
    return min(1 << max(count - 1, 0).bit_length(), 1 << (most.bit_length() - 1))
