"""Sentences of one text with a recurrent model's state kept from each to the next, as ELMo's authors read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import UsageProblem
from regard.rows import Tokens

if TYPE_CHECKING:
    from regard.models.recurrent import Standing
    from regard.tasks.pooling import Pooling
    from regard.tasks.reader import Choice, Reader


class SentenceStream:
    """A text that is read sentence by sentence; each begins with the state that the one before it left.  A new stream,
    or `reset`, begins with none."""

    def __init__(self, reader: Reader):
        if not hasattr(reader.model.encoder, "layers_on"):
            raise UsageProblem("this model keeps no state between texts; give a recurrent one, such as ELMo")
        self.reader = reader
        self._state: list[Standing] = []  # of each way

    def reset(self) -> None:
        self._state = []

    def embed(
        self, texts: Sequence[str], *, layers: str | Choice = "last", pooling: Pooling | None = None
    ) -> np.ndarray:  # (texts, W)
        """One vector per text, as `Reader.embed` pools them."""
        pooling = pooling or self.reader.pooling
        found = [pooling(*self._read(self.reader.row(text)[0], layers)).float().cpu() for text in texts]
        return torch.cat([torch.zeros(0, self.reader.model.encoder.config.width), *found]).numpy()

    def embed_words(self, sentences: Sequence[Sequence[str]], *, layers: str | Choice = "last") -> list[np.ndarray]:
        """Of sentences cut into words, one vector per word: (words, W) each."""
        found = []
        for words in sentences:
            (ids, _), places = self.reader.words(words)
            states, _ = self._read(ids, layers)
            index = torch.tensor(places, dtype=torch.long)
            found.append(torch.where(index[:, None] < 0, 0.0, states.float().cpu()[index]).numpy())
        return found

    @torch.inference_mode()
    def _read(self, ids: list[int], layers: str | Choice) -> tuple[Tensor, Any]:  # (N, W), and the row
        from regard.tasks.reader import chosen

        tokens = Tokens.of([ids], self.reader.device)
        states, self._state = self.reader.model.encoder.layers_on(tokens, self._state)
        return chosen(layers)(states), tokens.rows
