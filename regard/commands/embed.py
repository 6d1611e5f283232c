"""embed: a vector for each text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.load import load_reader
from regard.errors import UsageProblem

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
    keep_state: bool = False,
    device: str | None = None,
    precision: Precision = "float32",
) -> np.ndarray:  # (texts, width)
    """The vectors of texts, from any layers of an encoder; pooled as its folder declares, or by a pooling that is named
    (mean, max, cls, lasttoken, mean_sqrt_len_tokens, weightedmean; several joined: mean+max).  The prompt that is put
    before every text is the folder's default one, the one called `prompt_name`, or `prompt` itself.
    A recurrent model may `keep_state` from each text to the next, as ELMo's authors do with the sentences of a text."""
    from regard.tasks.pooling import Pooling

    reader = load_reader(model, device, precision)
    chosen = Pooling(pooling) if pooling else None
    if keep_state:
        if prompt or prompt_name:
            raise UsageProblem("a prompt does not go with keep_state: it would stand between the sentences of a text")
        return reader.sentence_stream().embed(texts, layers=layers or "last", pooling=chosen)
    return reader.embed(texts, layers=layers, pooling=chosen, prompt=prompt, prompt_name=prompt_name)
