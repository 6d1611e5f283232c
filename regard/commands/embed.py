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
    layers: str | Choice = "last",
    pooling: str | None = None,
    keep_state: bool = False,
    device: str | None = None,
    precision: Precision = "float32",
) -> np.ndarray:  # (texts, width)
    """The vectors of texts, from any layers of an encoder; pooled as its folder declares, or by first, mean or max.
    A recurrent model may `keep_state` from each text to the next, as ELMo's authors do with the sentences of a text."""
    from regard.tasks.pooling import Pooling

    reader = load_reader(model, device, precision)
    source = reader.sentence_stream() if keep_state else reader
    return source.embed(texts, layers=layers, pooling=Pooling(pooling) if pooling else None)
