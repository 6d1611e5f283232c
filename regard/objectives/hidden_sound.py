"""Spans of sound that are hidden in training: of frames (wav2vec 2.0), and of channels too (SpecAugment, Park et al.
2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Spans(Protocol):
    """How much is hidden, in spans of which length, and how many of them at least."""

    share: float
    length: int
    least: int
    channels: float
    channels_length: int
    channels_least: int


def hidden_frames(counts: Sequence[int], spans: Spans) -> list[Tensor]:
    """Of rows with so many frames, the places in each that are hidden."""
    return [drawn(count, spans.share, spans.length, spans.least).nonzero().squeeze(1) for count in counts]


def hidden_channels(rows: int, width: int, spans: Spans) -> Tensor:  # (B, W) bool
    shape = width, spans.channels, spans.channels_length, spans.channels_least
    return torch.stack([drawn(*shape) for _ in range(rows)])


def drawn(count: int, share: float, length: int, least: int) -> Tensor:  # (count,) bool
    """Spans of a row that begin anywhere and may overlap, so that the share is the most there may be.  A row that is
    short has shorter ones, and none is hidden whole."""
    length = max(min(length, count // 2), 1)
    number = max(int(share * count / length + torch.rand(()).item()), least)
    number = min(number, max(count - 1, 0) // length)
    begins = torch.randperm(max(count - length + 1, 0))[:number]
    hidden = torch.zeros(count, dtype=torch.bool)
    hidden[(begins[:, None] + torch.arange(length)).flatten()] = True
    return hidden
