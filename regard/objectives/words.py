"""Word vectors: which words stand beside which.  Skip-gram and the continuous bag of words, with negative sampling
(Mikolov et al. 2013), and GloVe (Pennington et al. 2014), each judged for a whole batch by products of matrices.

Letters: B blocks of G words, E words beside a block at each end, S noise words of a block, W width, V vocabulary.
Noise is drawn for a block, not for a pair (as by Ji et al. 2016): S words, which weigh as much as the few asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UsageProblem
from regard.objectives.objective import Batch, Objective, Result
from regard.objectives.reading import counted

POWER = 0.75  # of word2vec's noise, and of GloVe's weights


@dataclass(frozen=True, eq=False)
class Windows:
    """What stands beside a word, and what does not.  The window of a word reaches 1 to `window` words to both sides, by
    chance, so that nearer words count more."""

    noise: Tensor  # (V,) the chance of each word or any before it to be drawn as noise
    window: int = 5
    negatives: int = 5  # noise words that weigh as much as one neighbour
    drawn: int = 32  # noise words of a block

    def __post_init__(self) -> None:
        if min(self.window, self.negatives, self.drawn) < 1:
            raise UsageProblem(f"window={self.window}, negatives={self.negatives}: give 1 or more")

    @classmethod
    def of(cls, counts: Tensor, window: int = 5, negatives: int = 5) -> Windows:  # (V,)
        """Noise by how often words occur, to the power of 3/4."""
        chances = (counts.double() ** POWER).cumsum(0)
        return cls(chances / chances[-1], window, negatives)

    def ask(self, batch: Batch) -> Batch:
        """The batch with `near`, (B, G, E + G + E), true for each word of a block where a word of its window is; and
        `noise`, (B, S)."""
        rows, edge = batch["rows"], self.window
        inner = rows[:, edge:-edge, None]  # (B, G, 1)
        places = torch.arange(rows.shape[1], device=rows.device)
        distance = (places - places[edge:-edge, None]).abs()  # (G, E + G + E)
        reach = torch.randint(1, self.window + 1, inner.shape, device=rows.device)
        near = (inner == rows[:, None]) & (inner >= 0) & (distance <= reach) & (distance > 0)
        draws = torch.rand(len(rows), self.drawn, dtype=torch.double, device=rows.device)
        noise = torch.searchsorted(self.noise, draws).clamp(max=len(self.noise) - 1)  # rounding may leave 1 to nobody
        return {**batch, "near": near, "noise": noise}

    def against(self, scores: Tensor, weights: Tensor) -> Tensor:  # (B, G, S), (B, G, 1) -> ()
        """The loss of noise words, of which so many were drawn in place of the few asked for."""
        return -(F.logsigmoid(-scores) * weights).sum() * (self.negatives / self.drawn)


class SkipGram(Objective):
    """Each word of a window, from the one in the middle."""

    def __init__(self, windows: Windows):
        super().__init__()
        self.windows = windows

    def prepare(self, batch: Batch) -> Batch:
        return self.windows.ask(batch)

    def judge(self, model: Any, batch: Batch) -> Result:
        ids, noise, edge = batch["ids"], batch["noise"], self.windows.window
        middle = model.words(ids[:, edge:-edge])  # (B, G, W)
        near = batch["near"].to(middle.dtype)
        both = model.contexts(torch.cat([ids, noise], 1))
        beside, drawn = both.split([ids.shape[1], noise.shape[1]], 1)  # (B, E + G + E, W), (B, S, W)
        loss = -(F.logsigmoid(middle @ beside.mT) * near).sum()
        loss = loss + self.windows.against(middle @ drawn.mT, near.sum(-1, keepdim=True))
        return Result(loss, near.sum())


class Bag(Objective):
    """The word in the middle, from the mean of its window: the continuous bag of words."""

    def __init__(self, windows: Windows):
        super().__init__()
        self.windows = windows

    def prepare(self, batch: Batch) -> Batch:
        return self.windows.ask(batch)

    def judge(self, model: Any, batch: Batch) -> Result:
        ids, noise, edge = batch["ids"], batch["noise"], self.windows.window
        words = model.words(ids)  # (B, E + G + E, W)
        near = batch["near"].to(words.dtype)
        count = near.sum(-1, keepdim=True)  # (B, G, 1)
        asked = count.clamp(max=1)  # a line may have one word only
        bags = (near / count.clamp(min=1)) @ words  # (B, G, W)
        inner = ids[:, edge:-edge]
        both = model.contexts(torch.cat([inner, noise], 1))
        middle, drawn = both.split([inner.shape[1], noise.shape[1]], 1)  # (B, G, W), (B, S, W)
        loss = -(F.logsigmoid((bags * middle).sum(-1, keepdim=True)) * asked).sum()
        return Result(loss + self.windows.against(bags @ drawn.mT, asked), asked.sum())


class GloVe(Objective):
    """How often words stand together: the logarithm, from the product of two vectors and a bias of each.  A pair
    weighs (count / `common`) ** 0.75, at most 1, and is asked from both sides."""

    def __init__(self, common: float):
        super().__init__()
        if not common > 0:
            raise UsageProblem(f"common={common}: give a count above 0")
        self.common = common

    def judge(self, model: Any, batch: Batch) -> Result:
        words = torch.cat([batch["first"], batch["second"]])  # (M,)
        contexts = torch.cat([batch["second"], batch["first"]])
        counts = batch["counts"].repeat(2)
        scores = (model.words(words) * model.contexts(contexts)).sum(-1)
        biases = model.word_biases(words) + model.context_biases(contexts)
        errors = scores + biases.squeeze(-1) - counts.log()
        loss = ((counts / self.common).clamp(max=1) ** POWER * errors**2).sum()
        return Result(loss, counted(words))
