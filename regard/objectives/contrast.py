"""wav2vec 2.0's question (Baevski et al., 2020): which code belongs to a hidden frame, and which to others of its row?

Letters: B rows, N frames, M of them hidden, K negatives, W width, D width in which states and codes are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import Problem, UsageProblem
from regard.objectives.hidden_sound import hidden_frames
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted


@dataclass(frozen=True)
class Falling:
    """The temperature of Gumbel's softmax: from the first it falls by the same factor at every step, to the last."""

    first: float = 2.0
    last: float = 0.5
    steps: int = 280_000  # the paper's factor, 0.999995, needs as many

    def at(self, step: int) -> float:
        done = min(step / max(self.steps, 1), 1.0)
        return self.first * (self.last / self.first) ** done


@dataclass(frozen=True)
class Guard:
    """A codebook of which few entries are used asks nothing: it has collapsed if the perplexity of what is used stays
    below this share of all entries for so many micro-batches."""

    share: float = 0.05
    patience: int = 200


@dataclass(frozen=True)
class Asking:
    """What of the question is not the model's."""

    falling: Falling = field(default_factory=Falling)
    guard: Guard = field(default_factory=Guard)
    a_step: int = 1  # micro-batches of a step, of all processes


class Contrast(Objective):
    """Of a hidden frame, its own code among those of other hidden frames of the row; and all entries of the codebook
    are to be used: L = L_contrast + diversity * L_diversity.  The codebook is the model's head for it."""

    name = "contrast"

    def __init__(self, config: Any, asking: Asking | None = None):
        super().__init__()
        self.config, self.asking = config, asking or Asking()
        self.low = torch.zeros((), dtype=torch.long)  # micro-batches that the perplexity has been low for
        self.since = 0  # those since it was looked at

    def prepare(self, batch: Batch) -> Batch:
        counts = [self.config.waves.frames(length) for length in batch["lengths"]]
        hidden = [places if len(places) > 1 else places[:0] for places in hidden_frames(counts, self.config.spans)]
        starts = torch.tensor([0, *counts]).cumsum(0)
        if not any(map(len, hidden)):
            raise UsageProblem(f"rows of {counts} frames: too few to hide any. Give longer recordings, or hide more.")
        places = torch.cat([row + start for row, start in zip(hidden, starts, strict=False)])
        others = negatives([*map(len, hidden)], self.config.codebook.negatives)
        return {**batch, "places": places, "negatives": others, "frames": sum(counts)}

    def judge(self, model: Any, batch: Batch) -> Result:
        book, places = codebook_of(model), batch["places"]
        heard = model.encoder.hear(batch["wave"], batch["lengths"], places)
        temperature = self.asking.falling.at(batch.get("position", 0) // self.asking.a_step)
        codes = book.codes(heard.features[places], temperature)
        logits = self.compared(book.of_states(heard.states[places]), codes, batch["negatives"])
        contrast = F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long), reduction="sum")
        count, most = counted(places), self.config.codebook.groups * self.config.codebook.entries
        diversity = (1 - codes.perplexity / most) * count
        if self.training:
            self.watch(codes.perplexity.detach(), most)
        parts = {
            "contrast_loss": contrast.detach(),
            "diversity_loss": diversity.detach(),
            "right": (logits.argmax(1) == 0).sum(),
            "perplexity": codes.perplexity.detach() * count,
        }
        return Result(contrast + self.config.codebook.diversity * diversity, count, parts)

    def compared(self, states: Tensor, codes: Any, others: Tensor) -> Tensor:  # (M, D), (M, K) -> (M, 1 + K)
        """How alike states are to their own code and to others; an equal one is no other."""
        states, vectors = (F.normalize(some.float(), dim=-1) for some in (states, codes.vectors))
        with torch.autocast(states.device.type, enabled=False):  # divided by the temperature, half precision would show
            alike = states @ vectors.T / self.config.codebook.temperature  # (M, M)
        same = codes.numbers[others] == codes.numbers[:, None]
        wrong = alike.gather(1, others).masked_fill(same, -torch.inf)
        return torch.cat([alike.diagonal()[:, None], wrong], 1)

    def watch(self, perplexity: Tensor, most: int) -> None:
        """Count how long the perplexity has been low, and now and then wait for the device to look."""
        guard = self.asking.guard
        self.low = torch.where(perplexity < guard.share * most, self.low.to(perplexity.device) + 1, 0)
        self.since += 1
        if self.since >= max(guard.patience // 4, 1):
            self.since = 0
            if int(self.low) >= guard.patience:
                raise collapsed(float(perplexity), most, int(self.low), self.config.codebook.diversity)

    def carried(self) -> dict[str, Tensor]:
        return {"low": self.low.reshape(1)}

    def carry(self, model: nn.Module, tensors: dict[str, Tensor]) -> None:
        self.low = tensors["low"].reshape(())


def codebook_of(model: Any) -> Any:
    if "contrast" not in model.heads:
        raise UsageProblem(
            "Contrast needs a model with the head 'contrast', a codebook; begin from a preset of wav2vec2"
        )
    return model.heads["contrast"]


def negatives(hidden: list[int], count: int) -> Tensor:  # (M, K)
    """For each hidden frame so many others of its row, by their places among all that are hidden."""
    parts, start = [], 0
    for size in hidden:
        if size:
            others = torch.randint(size - 1, (size, count))
            others += others >= torch.arange(size)[:, None]  # so that none is the frame itself
            parts.append(others + start)
        start += size
    return torch.cat(parts)


def collapsed(perplexity: float, most: int, steps: int, diversity: float) -> Problem:
    return Problem(
        f"the codebook has collapsed: for {steps} micro-batches its perplexity has been below what learning needs, now "
        f"{perplexity:.1f} of {most} entries. Begin anew with a larger weight of diversity (--set "
        f"codebook.diversity=..., now {diversity:g}), a lower rate, or more sound in a batch."
    )
