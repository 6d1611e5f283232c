"""Answers about a row so long that its logits do not fit: some of them at a time, and made again on the way back.

Letters: N targets, W width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.objectives.objective import Result
from regard.objectives.reading import answered, counted

LOGITS = 2**26  # that are made at once


def answered_in_pieces(
    scores: Callable[[Tensor], Tensor], states: Tensor, wanted: Tensor, vocab: int
) -> Result:  # (N, W) -> (N, V); (N, W), (N,)
    """What `answered` gives of scores(states)."""
    together = max(LOGITS // vocab, 1)

    def judged(some: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        result = answered(scores(some), answers)
        return result.loss, result.parts["right"]

    pieces = zip(states.split(together), wanted.split(together), strict=True)
    if len(states) <= together or not torch.is_grad_enabled():
        sums = [judged(*piece) for piece in pieces]
    else:
        sums = [checkpoint(judged, *piece, use_reentrant=False) for piece in pieces]
    loss, right = (torch.stack(part).sum() for part in zip(*sums, strict=True))
    return Result(loss, counted(wanted), {"right": right})
