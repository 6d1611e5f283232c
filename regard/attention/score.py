"""How well a query matches a key: the six scores, from content-based addressing to the Transformer.

Four of the six are inner products of mapped queries and keys: fused kernels can do those.
Letters: N tokens, H heads, D size of a head; B rows, Q queries and K keys of a row, padded.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import Problem


class Score(nn.Module):
    """queries and keys are mapped token by token (keys once for a fixed memory); logits compares them."""

    fused = True  # logits are queries(q) . keys(k) * scale, and nothing else
    scale = 1.0

    def queries(self, q: Tensor) -> Tensor:  # (N, H, D) -> (N, H, D')
        return q

    def keys(self, k: Tensor) -> Tensor:  # (N, H, D) -> (N, H, D')
        return k

    def logits(self, q: Tensor, k: Tensor) -> Tensor:  # (B, H, Q, D'), (B, H, K, D') -> (B, H, Q, K)
        return q @ k.mT * self.scale


class Dot(Score):
    """Luong 2015: s . h"""


class ScaledDot(Score):
    """Vaswani 2017: s . h / sqrt(D), so that the variance of the logits does not grow with the size."""

    def __init__(self, size: int):
        super().__init__()
        self.scale = size**-0.5


class Cosine(Score):
    """Graves 2014, content-based addressing: strength * cos(s, h).  The strength is learned: without it, a softmax
    over numbers between -1 and 1 could never choose."""

    def __init__(self, strength: float = 10.0):
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(strength))

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) * self.strength

    def keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)


class General(Score):
    """Luong 2015: s W h"""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Linear(size, size, bias=False)

    def queries(self, q: Tensor) -> Tensor:
        return self.weight(q)


class Additive(Score):
    """Bahdanau 2015: v . tanh(W s + U h), which is v . tanh(W' [s; h]) with the product done once a token."""

    fused = False

    def __init__(self, size: int):
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def queries(self, q: Tensor) -> Tensor:
        return self.query(q)

    def keys(self, k: Tensor) -> Tensor:
        return self.key(k)

    def logits(self, q: Tensor, k: Tensor) -> Tensor:
        both = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, Q, K, D)
        return self.energy(both).squeeze(-1)


class Location(Score):
    """Luong 2015: W s, from the query alone.  What the keys say does not matter, only how many there are."""

    fused = False

    def __init__(self, size: int, longest: int = 256):
        super().__init__()
        self.weight = nn.Linear(size, longest, bias=False)

    def queries(self, q: Tensor) -> Tensor:
        return self.weight(q)

    def logits(self, q: Tensor, k: Tensor) -> Tensor:
        if k.shape[-2] > q.shape[-1]:
            raise Problem(
                f"the location score has weights for {q.shape[-1]} places and met a row of {k.shape[-2]}; "
                "shorten the text, or use a score that reads its keys"
            )
        return q[..., : k.shape[-2]]


def make_score(name: str, size: int) -> Score:
    """The score a config names."""
    return SCORES[name](size)


SCORES = {
    "cosine": lambda size: Cosine(),
    "additive": Additive,
    "location": Location,
    "general": General,
    "dot": lambda size: Dot(),
    "scaled-dot": ScaledDot,
}
