"""A mix of layers (ELMo, Peters et al. 2018): each layer has a weight, the same for every word, learned with a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UsageProblem

NAME, LEARNED = "mix", "learned mix"
STEPS, BATCH, RATE = 1000, 256, 0.01
EVEN = 0.001  # the paper's lambda: how much the layers are held to equal shares
TINY = 1e-6  # added to a spread, which may be none


@dataclass(frozen=True)
class Mix:
    """The weight of each layer, what was embedded first: in the paper's letters gamma * s_j."""

    weights: tuple[float, ...]

    @classmethod
    def of(cls, text: str) -> Mix:
        """What `str` of a mix gives: `mix 0.2 0.3 0.5`."""
        try:
            weights = tuple(map(float, text.removeprefix(NAME).split()))
        except ValueError as error:
            raise UsageProblem(f"{text!r} is no mix of layers ({error}); write one as: mix 0.2 0.3 0.5") from None
        if not weights or not all(map(isfinite, weights)):
            raise UsageProblem(f"{text!r} is no mix of layers; give a number for each, such as: mix 0.2 0.3 0.5")
        return cls(weights)

    def __str__(self) -> str:
        return " ".join([NAME, *(f"{weight:.4g}" for weight in self.weights)])

    @property
    def scale(self) -> float:
        return sum(self.weights)

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(weight / self.scale for weight in self.weights)

    def __call__(self, layers: Sequence[Tensor]) -> Tensor:  # (N, W) of each layer -> (N, W)
        if len(layers) != len(self.weights):
            raise UsageProblem(
                f"a mix of {len(self.weights)} weights does not fit: the model has {len(layers)} layers, "
                "what was embedded counted as the first; give a weight for each"
            )
        return torch.tensordot(layers[0].new_tensor(self.weights), stacked(layers), 1)


def stacked(layers: Sequence[Tensor]) -> Tensor:  # (N, W) of each -> (layers, N, W)
    """Layers that are to be added; those of some recurrent models are not equally wide."""
    widths = [layer.shape[-1] for layer in layers]
    if len(set(widths)) > 1:
        raise UsageProblem(f"layers of {', '.join(map(str, widths))} numbers cannot be added; choose one of them")
    return torch.stack(list(layers))


def learn_mix(states: Tensor, labels: Tensor, strength: float, seed: int = 0) -> Mix:  # (n, layers, W), (n,)
    """The mix off which a linear softmax classifier reads the labels best; `states` are changed in place.

    The classifier is held back as a logistic regression of that `strength` is.  It could undo any scale, so what is
    held back is its weights times the scale: else these would shrink as that grows.
    """
    states -= states.mean(0)
    states /= states.std((0, 1)) + TINY  # one scale for every number of a vector; that of the layers stays
    count, layers, width = states.shape
    kinds = int(labels.max()) + 1
    preferences, scale = torch.zeros(layers), torch.ones(())
    outputs, bias = torch.zeros(kinds, width), torch.zeros(kinds)
    optimizer = torch.optim.AdamW(
        [p.requires_grad_() for p in (preferences, scale, outputs, bias)], RATE, weight_decay=0.0
    )
    generator = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        some = torch.randint(count, (BATCH,), generator=generator)
        effective = scale * outputs
        scores = torch.einsum("njw,j,vw->nv", states[some], preferences.softmax(0), effective) + bias
        held = effective.square().sum() / (2 * strength * count) + EVEN * preferences.square().sum()
        loss = F.cross_entropy(scores, labels[some]) + held
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Mix(tuple((scale * preferences.softmax(0)).tolist()))
