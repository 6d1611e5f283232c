"""How far rows have been written, in slots of a fixed size: for steps that are the same kernels every time.

Letters: S slots, a sentence each; K beams of each, B = S * K rows, T places of a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.attention import Attention
from regard.attention.fixed import FixedRoom, FixedRows, grids
from regard.attention.mask import CAUSAL
from regard.attention.route import Route
from regard.layers.block import Trace
from regard.layers.stack import Stack, Written


@dataclass(frozen=True, eq=False)
class Fixed(Written):
    """A step over it writes one more place of every row, wherever that is, and leaves it to its user to say that a row
    is one place further: `at` is how many places are filled."""

    @classmethod
    def like(cls, state: Written, slots: int, beams: int, places: int) -> Fixed:
        """Slots for sentences such as those of a state, with so many places for each of the beams and the source."""
        memories = [trace.own or trace.source for trace in state.traces]
        like = grids(memories[0])[0]  # type: ignore[arg-type]
        own, source = (FixedRows.empty(slots, each, places, like) for each in (beams, 1))
        pairs = zip(memories, (trace.source for trace in state.traces), strict=True)
        traces = [Trace(FixedRoom.like(a, own), b and FixedRoom.like(b, source)) for a, b in pairs]  # type: ignore
        return cls(traces, own.filled)

    @property
    def rows(self) -> FixedRows:
        return self.traces[0].own.rows  # type: ignore[union-attr, return-value]

    def within(self, places: int) -> Fixed:
        """The same, of which no more than so many places are looked at.  What follows from how far rows are is computed
        anew."""
        own = replace(self.rows, longest=places)
        source = self.traces[0].source and replace(self.traces[0].source.rows, longest=places)

        def trace(was: Trace) -> Trace:
            return Trace(was.own.within(own), was.source and was.source.within(source))  # type: ignore[union-attr]

        return Fixed([trace(was) for was in self.traces], self.at)

    def put(self, slots: Tensor, state: Written) -> None:
        """Let sentences begin in slots, from a state that has their beams side by side."""
        for mine, new in zip(self.traces, state.traces, strict=True):
            if new.own is not None:
                mine.own.put(slots, new.own)  # type: ignore[union-attr]
            if new.source is not None:
                mine.source.clear(slots)  # type: ignore[union-attr]
                mine.source.put(slots, new.source)  # type: ignore[union-attr]
        if new.source is not None:
            mine.source.rows.filled.index_copy_(0, slots, new.source.rows.lengths)  # type: ignore[union-attr]
        self.begin(slots, state.at)

    def take(self, begins: Tensor, state: Written) -> None:  # (S,)
        """Let sentences begin in the slots that are marked, from a state that has a source for every slot: the same
        kernels whichever they are."""
        for mine, new in zip(self.traces, state.traces, strict=True):
            mine.source.take(begins, new.source)  # type: ignore[union-attr]
        filled = mine.source.rows.filled  # type: ignore[union-attr]
        filled.copy_(torch.where(begins, new.source.rows.lengths[: len(begins)], filled))  # type: ignore[union-attr]
        self.at.view(-1, self.rows.beams).masked_fill_(begins[:, None], 0)
        if self.rows.owner is not None:
            table = self.rows.owner.unflatten(0, (-1, self.rows.beams))
            table.copy_(torch.where(begins[:, None, None], self.rows.lanes, table))

    def begin(self, slots: Tensor, at: Tensor) -> None:  # (n,), (n * K,)
        """Rows that have so many places filled, which are their own."""
        self.at.view(-1, self.rows.beams).index_copy_(0, slots, at.view(len(slots), -1))
        if self.rows.owner is not None:
            table = self.rows.owner.unflatten(0, (-1, self.rows.beams))
            table.index_copy_(0, slots, self.rows.lanes.expand(len(slots), -1, table.shape[-1]))

    def follow(self, parents: Tensor, places: int) -> None:  # (S, K)
        """Each beam goes on from another of its sentence.  Only the table of what belongs to whom is changed."""
        if self.rows.owner is None:
            return
        table = self.rows.owner.unflatten(0, parents.shape)[..., :places]  # (S, K, T)
        came = table.gather(1, parents[..., None].expand(-1, -1, places))
        written = self.rows.numbers[:places] < self.at.view(*parents.shape, 1)
        table.copy_(torch.where(written, came, self.rows.numbers[: parents.shape[1], None]))


def can_be_fixed(model: nn.Module) -> bool:
    """Whether its steps can be the same kernels every time: every score is an inner product, and all places before a
    token are seen."""
    attentions = [part for part in model.modules() if isinstance(part, Attention)]
    plain = all(part.score.fused and type(part.route) is Route for part in attentions)
    masks = [part.mask for part in model.modules() if isinstance(part, Stack)]
    return plain and all(mask is None or mask.band == CAUSAL.band for mask in masks)
