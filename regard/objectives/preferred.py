"""Which of two texts is preferred (Bradley and Terry, 1952): each is worth a number, and the chance that the first is
chosen over the second is the logistic function of their difference."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from regard.objectives.objective import Result
from regard.objectives.reading import counted


def preferred(worth: Tensor) -> Result:  # (pairs, 2): the chosen text's, then the other's
    """-log p(chosen over rejected), and how often the chosen one is worth more."""
    margin = worth[:, 0] - worth[:, 1]
    parts = {"right": (margin > 0).sum(), "margin": margin.detach().sum()}
    return Result(-F.logsigmoid(margin).sum(), counted(margin), parts)
