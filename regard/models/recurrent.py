"""A state for each token by recurrent language models: forwards, backwards, or both ways that never meet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.layers.embedding import Embedding
from regard.layers.recurrent import Hidden, Way, locked
from regard.rows import Rows, Tokens

Ways = Literal["forward", "backward", "both"]
WAYS = {"forward": (False,), "backward": (True,), "both": (False, True)}  # of each way: does it read backwards?


@dataclass(frozen=True, eq=False)
class Standing:
    """How far each row has been read: where every layer stands."""

    layers: tuple[Hidden, ...]

    def select(self, chosen: Tensor) -> Standing:
        return Standing(tuple(layer.select(chosen) for layer in self.layers))

    def detached(self) -> Standing:
        return Standing(tuple(layer.detached() for layer in self.layers))

    def tensors(self) -> list[Tensor]:
        return [part for layer in self.layers for part in layer.parts]


class RecurrentEncoder(nn.Module):
    """A state for each token, from what came before it, from what comes after it, or from both.  The two ways meet in
    no layer: each is a language model."""

    finetuned_by = "ulmfit"

    def __init__(self, config: Any, embed: nn.Module | None = None):
        super().__init__()
        self.config = config
        self.embed: Any = embed or Embedding(replace(config.embedding, dropout=0.0))  # its dropout is locked, below
        ways = WAYS[config.way]
        self.ways = nn.ModuleList(Way(config.recurrent, config.embedding.width, backward=back) for back in ways)

    def forward(self, tokens: Tokens, types: Tensor | None = None) -> Tensor:  # (N,) -> (N, W)
        return self.top(tokens)

    def top(self, tokens: Tokens) -> Tensor:  # (N,) -> (N, W)
        return deque(self.layers(tokens), maxlen=1).pop()  # those below are not kept

    def layers(self, tokens: Tokens, types: Tensor | None = None) -> Iterator[Tensor]:
        """The states of every layer, (N, W of that layer), what was embedded first; forwards and backwards side by
        side, what was embedded twice."""
        x, rows = self.embedded(tokens), tokens.rows
        yield torch.cat([x] * len(self.ways), -1)
        ways: list[Any] = list(self.ways)
        for number, layer in enumerate(zip(*(way.each(x, rows) for way in ways), strict=True), 1):
            states = torch.cat([states for states, _ in layer], -1)
            yield self.dropped(states, rows) if number == self.config.layers else states

    def layers_on(self, tokens: Tokens, was: Sequence[Standing] = ()) -> tuple[list[Tensor], list[Standing]]:
        """The states of every layer as `layers` has them, read on from where each way stood, and where it stands now.
        A way that reads backwards goes on too: into a row's last token from where it left the row before, as ELMo's
        authors have it."""
        x, rows = self.embedded(tokens), tokens.rows
        ways: list[Any] = list(self.ways)
        found = [list(way.each(x, rows, was[number].layers if was else ())) for number, way in enumerate(ways)]
        layers = [torch.cat([states for states, _ in layer], -1) for layer in zip(*found, strict=True)]
        layers[-1] = self.dropped(layers[-1], rows)
        standing = [Standing(tuple(now for _, now in way)) for way in found]
        return [torch.cat([x] * len(ways), -1), *layers], standing

    def both(self, tokens: Tokens) -> tuple[Tensor, Tensor]:  # (N, W / 2) each
        """The state that has read a token and all before it, and the one that has read it and all after it."""
        if self.config.way != "both":
            raise UsageProblem(f"a model that reads {self.config.way} has but one way; give one that reads both")
        forward, backward = self.top(tokens).chunk(2, -1)
        return forward, backward

    def read(self, tokens: Tokens, was: Standing | None = None) -> tuple[Tensor, Standing]:  # (N, W)
        """Read on from where each row stood; where it stands now."""
        states, now = self.read_raw(tokens, was)
        return self.dropped(states, tokens.rows), now

    def read_raw(self, tokens: Tokens, was: Standing | None = None) -> tuple[Tensor, Standing]:  # (N, W)
        """The same before dropout: the two together are what AWD-LSTM's penalties are of."""
        if self.config.way != "forward":
            asked = {"backward": "before", "both": "both"}[self.config.way]
            raise UsageProblem(
                f"what reads {self.config.way} cannot read by parts; ask it for {asked}, not for what comes next, or "
                "give a model that reads forward"
            )
        way: Any = self.ways[0]
        layers = list(way.each(self.embedded(tokens), tokens.rows, was.layers if was else ()))
        return layers[-1][0], Standing(tuple(now for _, now in layers))

    def dropped(self, states: Tensor, rows: Rows) -> Tensor:  # (N, W)
        return locked(states, rows, self.config.dropout, self.training)

    def embedded(self, tokens: Tokens) -> Tensor:  # (N,) -> (N, W)
        x, config = self.embed.read(tokens), self.config
        if self.training and config.word_dropout:
            kept = F.dropout(x.new_ones(config.embedding.vocab, 1), config.word_dropout)
            x = x * kept[tokens.ids]
        return locked(x, tokens.rows, config.embedding.dropout, self.training)

    def parts(self) -> list[nn.Module]:
        """From the input up: what embeds, and each layer of all ways."""
        ways: list[Any] = list(self.ways)
        return [self.embed, *(nn.ModuleList(layer) for layer in zip(*(way.layers for way in ways), strict=True))]

    def state_of(self, tensors: Sequence[Tensor]) -> Standing:
        """The state that gave these tensors."""
        size = len(tensors) // self.config.layers
        return Standing(tuple(Hidden(tuple(tensors[at : at + size])) for at in range(0, len(tensors), size)))
