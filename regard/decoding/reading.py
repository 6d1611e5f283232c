"""Sources that are read by one launch: filled up to one of a few sizes, they go through the same kernels every time.

To launch the kernels of an encoder one after the other takes a host longer than a GPU takes for short sources.
Letters: S slots, N tokens, P places of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard.layers.fixed import Fixed
from regard.rows import Rows, Tokens


class Reading:
    """Room for so many tokens, in sources of at most so many places, one for each slot of what is fixed.  Behind the
    sources lie rows of what fills them up, which nobody looks at."""

    def __init__(self, model: Any, fixed: Fixed, tokens: int, places: int):
        self.model, self.fixed, self.tokens, self.places = model, fixed, tokens, places
        self.slots = len(fixed.rows) // fixed.rows.beams
        self.spare = -(-tokens // places)  # rows
        parts = tokens, self.slots + self.spare + 1, self.slots
        self.told = torch.zeros(sum(parts), dtype=torch.int32, device=fixed.at.device)
        self.ids, self.offsets, self.begins = self.told.split(parts)

    def tell(self, slots: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """What is to be read next, and into which slots; all of it is sent at once."""
        told = np.zeros(len(self.told), np.int32)
        ids, offsets, begins = np.split(told, np.cumsum([len(self.ids), len(self.offsets)]))
        begins[list(slots)] = 1
        lengths = np.zeros(len(self.offsets) - 1, np.int32)
        lengths[list(slots)] = [len(source) for source in sources]
        rest = self.tokens - lengths.sum()
        lengths[self.slots :] = np.clip(rest - self.places * np.arange(self.spare), 0, self.places)
        offsets[1:] = lengths.cumsum()
        in_order = sorted(zip(slots, sources, strict=True))
        ids[: self.tokens - rest] = [id for _, source in in_order for id in source]
        sent = torch.from_numpy(told)
        self.told.copy_(sent.pin_memory() if self.told.is_cuda else sent, non_blocking=True)

    def run(self) -> None:
        """Over tensors that stay where they are; done twice it is as if it were done once."""
        source = Tokens(self.ids.long(), Rows(self.offsets, self.tokens, self.places))
        self.fixed.take(self.begins.bool(), self.model.start(source, self.fixed.rows.beams))
