"""embed: a vector for each text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_reader

if TYPE_CHECKING:
    import numpy as np

    from regard.layers.lowered import Precision
    from regard.tasks.reader import Choice, Reader


def embed(
    model: str | Path | Reader,
    texts: Sequence[str],
    *,
    layers: str | Choice | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    device: str | None = None,
    precision: Precision = "float32",
) -> np.ndarray:  # (texts, width)
    """The vectors of texts, from any layers of an encoder; pooled as its folder declares, or by a pooling that is named
    (mean, max, cls, lasttoken, mean_sqrt_len_tokens, weightedmean; several joined: mean+max).  The prompt that is put
    before every text is the folder's default one, the one called `prompt_name`, or `prompt` itself."""
    from regard.tasks.pooling import Pooling

    reader = load_reader(model, device, precision)
    chosen = Pooling(pooling) if pooling else None
    return reader.embed(texts, layers=layers, pooling=chosen, prompt=prompt, prompt_name=prompt_name)
