"""An objective is what a model is asked: how a batch becomes a question, and how well the model answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.rows import Rows, Tokens

Batch = dict[str, Any]  # names to Tokens, Rows or Tensors


@dataclass
class Result:
    """How well a batch was answered.  A sum and a count, so that averages stay exact over micro-batches and ranks."""

    loss: Tensor  # summed over targets
    count: Tensor  # of which there were so many
    parts: dict[str, Tensor] = field(default_factory=dict)  # further sums over the same targets, to report


class Objective(nn.Module):
    """Owns what only the asking needs (heads, a generator, a teacher); the model owns the rest."""

    # Whether batches have few shapes, and are judged without waiting for the device: then judging is one CUDA graph
    steady = False

    def prepare(self, batch: Batch) -> Batch:
        """Make the question: corrupt, pair, pack.  Runs beside the data, before the device, without the model."""
        return batch

    def judge(self, model: nn.Module, batch: Batch) -> Result:
        raise NotImplementedError(type(self).__name__)

    def carried(self) -> dict[str, Tensor]:
        """What goes from one step to the next beside the weights; a resumed run takes it up again by `carry`."""
        return {}

    def carry(self, model: nn.Module, tensors: dict[str, Tensor]) -> None:
        """Go on with what was carried when the run was saved."""


class Asked(nn.Module):
    """A model and what it is asked, as one module: all that the training loop knows."""

    def __init__(self, model: nn.Module, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def prepare(self, batch: Batch) -> Batch:
        return self.objective.prepare(batch)

    def forward(self, batch: Batch) -> Result:
        return self.objective.judge(self.model, batch)


def to_device(batch: Batch, device: torch.device | str) -> Batch:
    """The same batch there; what is not a tensor stays as it is.  A GPU is not waited for."""
    there = torch.device(device)

    def moved(part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.to(there, non_blocking=there.type == "cuda")
        return part.to(there) if isinstance(part, Tokens | Rows) else part

    return {name: moved(part) for name, part in batch.items()}
