"""Connectionist temporal classification (Graves et al., 2006): letters told from frames, of which nobody says when they
were spoken.  A frame tells a letter or a blank; all ways to spell the text are right, and their chances are added."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.objectives.hidden_sound import hidden_channels, hidden_frames
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted, scores_of
from regard.rows import Rows, Tokens


class CTC(Objective):
    """The letters of a recording.  In training some frames and channels are hidden, as the model's config says."""

    name = "ctc"

    def __init__(self, config: Any, blank: int):
        super().__init__()
        self.config, self.blank = config, blank

    def prepare(self, batch: Batch) -> Batch:
        if not self.training:
            return batch
        config, lengths, hidden = self.config, batch["lengths"], dict[str, Tensor]()
        counts = [config.waves.frames(length) for length in lengths]
        if config.spans.share:
            starts = torch.tensor([0, *counts]).cumsum(0)
            rows = zip(hidden_frames(counts, config.spans), starts, strict=False)
            hidden["places"] = torch.cat([row + start for row, start in rows])
        if config.spans.channels:
            hidden["channels"] = hidden_channels(len(lengths), config.width, config.spans)
        return {**batch, **hidden, "frames": sum(counts)}

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        heard = model.encoder.hear(batch["wave"], batch["lengths"], batch.get("places"), batch.get("channels"))  # type: ignore[operator, union-attr]
        scores = scores_of(model, "transcribe", heard.states, heard.rows, self)  # (N, W) -> (N, V)
        return spelled(scores, heard.rows, batch["letters"], self.blank)


def spelled(scores: Tensor, rows: Rows, letters: Tokens, blank: int) -> Result:  # (N, V)
    """How likely the letters of each row are, over all ways to spell them.  A row with more letters than its frames can
    tell would be impossible, and teaches nothing."""
    chances = rows.pad(scores.float().log_softmax(-1)).transpose(0, 1)  # (T, B, V)
    loss = F.ctc_loss(
        chances, letters.ids, rows.lengths, letters.rows.lengths, blank, reduction="sum", zero_infinity=True
    )
    return Result(loss, counted(letters.ids))


def frames_needed(letters: list[int]) -> int:
    """The fewest frames that tell these letters: between two that are equal there is a blank."""
    return len(letters) + sum(first == second for first, second in pairwise(letters))
