"""What is asked of recurrent language models: the words that they write, a whole text, each token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checkpoints.rules import Rules
from regard.layers.pooling import first, largest, last, mean
from regard.models.encoder import Head, NextHead, Role
from regard.rows import Rows

HIDDEN, HIDDEN_DROPOUT = 50, 0.1  # ULMFiT's, of the layer in its classifier


def ended(states: Tensor, rows: Rows, way: str) -> Tensor:  # (N, W) -> (B, W)
    """The states that have read all of a row."""
    if way != "both":
        return (last if way == "forward" else first)(states, rows)
    forward, backward = states.chunk(2, -1)
    return torch.cat([last(forward, rows), first(backward, rows)], -1)


class LastHead(nn.Module):
    """What is asked of a whole text is asked of the state that has read it (Dai and Le, 2015)."""

    def __init__(self, config: Any, outputs: int):
        super().__init__()
        self.way, self.dropout = config.way, nn.Dropout(config.dropout)
        self.out = nn.Linear(config.width, outputs)

    def forward(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, outputs)
        return self.out(self.dropout(ended(states, rows, self.way)))


class BatchNorm(nn.BatchNorm1d):
    """Of one example alone there is no spread: it is normed as in use."""

    def __init__(self, width: int):
        super().__init__(width)
        self.register_buffer("num_batches_tracked", None)  # which nothing asks for

    def forward(self, x: Tensor) -> Tensor:
        spread = self.training and len(x) > 1
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, spread, 0.1, self.eps)


class ConcatHead(nn.Module):
    """ULMFiT's: the last state, the largest and the mean side by side, and a hidden layer."""

    def __init__(self, config: Any, outputs: int):
        super().__init__()
        self.way, wide = config.way, 3 * config.width
        self.norm, self.dropout, self.dense = BatchNorm(wide), nn.Dropout(config.dropout), nn.Linear(wide, HIDDEN)
        self.hidden_norm, self.hidden_dropout = BatchNorm(HIDDEN), nn.Dropout(HIDDEN_DROPOUT)
        self.out = nn.Linear(HIDDEN, outputs)

    def forward(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W) -> (B, outputs)
        pooled = torch.cat([ended(states, rows, self.way), largest(states, rows), mean(states, rows)], -1)  # (B, 3 W)
        hidden = self.dense(self.dropout(self.norm(pooled))).relu()
        return self.out(self.hidden_dropout(self.hidden_norm(hidden)))


@dataclass(frozen=True)
class OwnHead:
    """A head of a family that only regard has: its names are ours."""

    role: Role
    kind: Callable[[Any, int], nn.Module]  # of a config, with so many outputs
    sized: bool = True  # does the task decide how many?

    @property
    def out(self) -> str | None:
        return f"heads.{self.role}.out" if self.sized else None

    @property
    def rules(self) -> Rules:
        return Rules(((f"heads.{self.role}.{{rest}}", f"heads.{self.role}.{{rest}}"),))

    def make(self, config: Any, outputs: Mapping[str, int]) -> nn.Module:
        return self.kind(config, outputs.get(self.out, 1) if self.out else config.embedding.vocab)


def write_head(config: Any, vocab: int) -> NextHead:
    """Both ways are compared with the same words."""
    return NextHead(config.recurrent.last, vocab, tied=config.tied, bias=True)


def text_head(config: Any, outputs: int) -> nn.Module:
    return (ConcatHead if config.pool == "concat" else LastHead)(config, outputs)


def token_head(config: Any, outputs: int) -> Head:
    return Head(config.width, None, outputs, dropout=config.dropout)


BODY = Rules((("encoder.{rest}", "encoder.{rest}"),))
HEADS: dict[str, tuple[OwnHead, ...]] = {
    "Model": (),
    "LanguageModel": (OwnHead("write", write_head, sized=False),),
    "Classifier": (OwnHead("classify", text_head),),
    "Chooser": (OwnHead("choose", text_head),),
    "Tagger": (OwnHead("tag", token_head),),
}
