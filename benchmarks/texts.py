"""Sentences that mean nothing, as long as those of SST-2."""

from __future__ import annotations

import numpy as np

# Word pieces of a row, [CLS] and [SEP] among them, in the 67,349 training phrases of GLUE's SST-2 (Socher et al., 2013)
# as the vocabulary of the uncased BERT cuts them: the length that such a share of the rows does not exceed.
LENGTHS = {
    0.00: 3, 0.05: 4, 0.10: 4, 0.15: 5, 0.20: 6, 0.25: 6, 0.30: 7, 0.35: 8, 0.40: 8, 0.45: 9, 0.50: 10, 0.55: 11,
    0.60: 13, 0.65: 14, 0.70: 16, 0.75: 18, 0.80: 20, 0.85: 23, 0.90: 27, 0.95: 33, 0.97: 37, 0.99: 44, 0.995: 48,
    0.999: 56, 1.00: 66,
}  # fmt: skip
FRAME = 2  # of those pieces are [CLS] and [SEP]
WORDS = 5000  # distinct ones


def lengths(count: int, random: np.random.Generator) -> np.ndarray:  # (count,)
    return np.interp(random.random(count), list(LENGTHS), list(LENGTHS.values())).round().astype(int)


def sentences(count: int, seed: int = 0) -> list[str]:
    """Every word is to be one piece."""
    random = np.random.default_rng(seed)
    sizes = lengths(count, random) - FRAME
    return [" ".join(f"w{word}" for word in random.integers(WORDS, size=size)) for size in sizes]
