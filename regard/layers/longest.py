"""How long a row may be: a table of positions has an end, and so has the location score."""

from __future__ import annotations

import sys

from torch import nn

from regard.attention.score import Location
from regard.layers.embedding import Embedding


def longest_row(model: nn.Module) -> int:
    """The most tokens a row may have; a number beyond any row where nothing limits it."""
    tables = [m.places for m in model.modules() if isinstance(m, Embedding)]
    scores = [m.weight.out_features for m in model.modules() if isinstance(m, Location)]
    return min(tables + scores, default=sys.maxsize)
