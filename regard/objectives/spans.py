"""Span corruption (T5, Raffel et al. 2020): a text is shown with gaps, and what stood in them is to be written.

"Thank you <X> me to your party <Y> week." asks for "<X> for inviting <Y> last <Z>".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.translate import Translate
from regard.rows import Rows, Tokens


@dataclass(frozen=True)
class Gaps:
    """How much of a text is hidden, and by which tokens its gaps are known.

    Each row has its share of hidden tokens, in gaps of this mean length that do not touch.  How long each one is and
    where is drawn by chance; all ways to do so are equally likely.
    """

    sentinels: tuple[int, ...]  # the first gap's, the second's, ...; the one after the last gap's says that this is all
    begin: int  # what writing begins with
    end: int  # of a source and of a target
    share: float = 0.15
    length: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or self.length < 1:
            raise UsageProblem(
                f"share={self.share}, length={self.length}: give a share between 0 and 1, and gaps of 1 token or more"
            )
        if len(self.sentinels) < 2:
            raise UsageProblem(f"gaps need two sentinels or more, and there are {len(self.sentinels)}")

    def hidden(self, rows: Rows) -> Tensor:  # (N,) bool
        """Which tokens of rows are in gaps; never all, unless there is but one."""
        lengths = rows.lengths
        tokens = (lengths * self.share).round().long().clamp(min=1).minimum((lengths - 1).clamp(min=1))
        most = (lengths - tokens + 1).clamp(max=len(self.sentinels) - 1)  # or gaps would touch, or have no sentinel
        gaps = (tokens / self.length).round().long().clamp(min=1).minimum(most)
        parts = Rows.of(2 * gaps + 1)  # shown, hidden, shown, ..., shown
        is_gap = parts.at % 2 == 1
        sizes = torch.empty(parts.total, dtype=torch.long)
        sizes[is_gap], sizes[~is_gap] = divided(tokens, gaps), divided(lengths - tokens + 2, gaps + 1)
        sizes[parts.first] -= 1  # the two that were too many: a row may begin or end with a gap
        sizes[parts.last] -= 1
        return is_gap.repeat_interleave(sizes)

    def corrupted(self, tokens: Tokens, hidden: Tensor) -> Batch:
        """The text with gaps, and what stood in them: as it is read, and as it is to be written."""
        rows, names = tokens.rows, torch.tensor(self.sentinels)
        opens = hidden & ~(hidden.roll(1) & (rows.at > 0))
        gaps = torch.zeros(len(rows), dtype=torch.long).index_add(0, rows.row, opens.long())
        number = opens.cumsum(0) - 1 - (gaps.cumsum(0) - gaps)[rows.row]  # of a gap in its row
        both = torch.stack([names[number.clamp(min=0)], tokens.ids], 1)  # (N, 2) the sentinel comes before its gap
        target = chosen(both, torch.stack([opens, hidden], 1), rows)
        asked = closed(closed(target, names[gaps]), self.end)
        before = asked.ids.roll(1)
        before[asked.rows.first] = self.begin
        return {
            "source": closed(chosen(both, torch.stack([opens, ~hidden], 1), rows), self.end),
            "target_in": Tokens(before, asked.rows),
            "target_out": asked.ids,
        }


class Spans(Objective):
    """What stood in the gaps of a text.  Rows are bare text: what begins and ends them is put there here."""

    def __init__(self, gaps: Gaps):
        super().__init__()
        self.gaps, self.answer = gaps, Translate(smoothing=0.0)

    def prepare(self, batch: Batch) -> Batch:
        tokens = batch["tokens"]
        return self.gaps.corrupted(tokens, self.gaps.hidden(tokens.rows))

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        return self.answer.judge(model, batch)


def divided(items: Tensor, parts: Tensor) -> Tensor:  # (B,), (B,) -> (parts.sum(),)
    """The lengths of as many parts, none of them empty, into which each row of items is cut by chance."""
    rows = Rows.of(items)
    draws = 1 - torch.rand(rows.total, dtype=torch.float64)
    draws[rows.first] = 0.0  # a row's first item always begins a part
    order = (rows.row + draws).argsort(stable=True)
    rank = torch.empty_like(order).index_copy(0, order, rows.at)
    begins = (rank < parts[rows.row]).nonzero().squeeze(1)
    return torch.cat([begins, begins.new_tensor([rows.total])]).diff()


def chosen(tokens: Tensor, which: Tensor, rows: Rows) -> Tokens:  # (N, 2), (N, 2)
    lengths = torch.zeros(len(rows), dtype=torch.long).index_add(0, rows.row, which.sum(1))
    return Tokens(tokens[which], Rows.of(lengths))


def closed(tokens: Tokens, last: Tensor | int) -> Tokens:
    """Rows with one more token at the end: the same one, or each its own, (B,)."""
    rows = Rows.of(tokens.rows.lengths + 1)
    ids = tokens.ids.new_empty(rows.total)
    ids[rows.last] = torch.as_tensor(last)
    ids[rows.at < tokens.rows.lengths[rows.row]] = tokens.ids
    return Tokens(ids, rows)
