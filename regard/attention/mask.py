"""Who may look at whom.  A mask is a predicate over places, so one definition serves every kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Allows = Callable[[Tensor, Tensor, Tensor], Tensor]  # row (B, 1, 1), query (B, Q, 1), key (B, 1, K) -> (B, Q, K)
Band = tuple[int | None, int | None]  # how far to the left and to the right; None: no limit


@dataclass(frozen=True, eq=False)
class Mask:
    """May the query at this place of this row look at the key at that place?"""

    allows: Allows
    band: Band | None = None  # set where the mask is a band around the diagonal: kernels have those built in

    def __and__(self, other: Mask) -> Mask:
        if self.band and other.band:
            (a, b), (c, d) = self.band, other.band
            return band(_nearer(a, c), _nearer(b, d))
        return Mask(lambda row, q, k: self.allows(row, q, k) & other.allows(row, q, k))

    def __or__(self, other: Mask) -> Mask:
        return Mask(lambda row, q, k: self.allows(row, q, k) | other.allows(row, q, k))


def _nearer(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)


def band(left: int | None, right: int | None) -> Mask:
    def allows(row: Tensor, q: Tensor, k: Tensor) -> Tensor:
        near = (k == k) | (q == q)  # everything, in the right shape
        if left is not None:
            near = near & (k >= q - left)
        return near if right is None else near & (k <= q + right)

    return Mask(allows, (left, right))


FULL = band(None, None)
CAUSAL = band(None, 0)


def window(side: int) -> Mask:
    """Longformer: so many places to either side."""
    return band(side, side)


def prefix(lengths: Tensor) -> Mask:  # (B,)
    """Causal, but the first so many places of each row are open to all: a text to go on from, read both ways."""
    return CAUSAL | Mask(lambda row, q, k: (k < lengths[row]) & (q == q))


def chosen_keys(chosen: Tensor) -> Mask:  # (B, K), True where everybody may look
    return Mask(lambda row, q, k: chosen[row, k] & (q == q))
