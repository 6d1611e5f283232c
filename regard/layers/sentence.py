"""The modules of sentence-transformers (Reimers and Gurevych 2019): from the states of tokens to one vector per text.

Each module reads one feature and writes one: the states of all tokens, (N, W), or the vectors of the texts, (B, W).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageProblem
from regard.layers.pooling import POOLINGS, weighted_mean
from regard.rows import Rows

TOKENS, SENTENCE = "token_embeddings", "sentence_embedding"  # as sentence-transformers calls the features
ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__: kind
    for kind in (
        nn.Identity, nn.Tanh, nn.Sigmoid, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU,
        nn.Mish, nn.Softplus, nn.Softsign, nn.Tanhshrink, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid,
    )
}  # fmt: skip


class SentenceModule(nn.Module):
    """A module that maps one feature to another of the same shape but for its width."""

    def __init__(self, source: str = SENTENCE, target: str = SENTENCE, width: int | None = None):
        super().__init__()
        self.source, self.target, self.width = source, target, width  # the width it reads; None: any

    def run(self, features: dict[str, Tensor], rows: Rows, prompt_lengths: Tensor | None) -> None:
        given = features[self.source]
        if self.width not in (None, given.shape[-1]):
            wanted = f"a module of its folder reads {self.width}: choose layers of that width, or give a pooling"
            raise UsageProblem(f"the vectors have {given.shape[-1]} numbers and {wanted}")
        features[self.target] = self(given)

    def output_width(self, width: int) -> int:
        return width


class SentencePooling(SentenceModule):
    """One vector per row, by one pooling or by several side by side."""

    def __init__(self, names: Sequence[str], include_prompt: bool = True):
        super().__init__(TOKENS)
        self.names, self.include_prompt = tuple(names), include_prompt

    def run(self, features: dict[str, Tensor], rows: Rows, prompt_lengths: Tensor | None) -> None:
        states, positions = features[TOKENS], None
        if prompt_lengths is not None and not self.include_prompt:
            start = torch.minimum(prompt_lengths, rows.lengths - 1)  # (B,) at least the last token is left
            left = rows.at >= start[rows.row]  # (N,)
            states, positions = states[left], rows.at[left]
            rows = Rows.of((rows.lengths - start).cpu(), states.device)
        pools = POOLINGS | {"weightedmean": partial(weighted_mean, positions=positions)}
        features[SENTENCE] = torch.cat([pools[name](states, rows) for name in self.names], -1)  # (B, names * W)

    def output_width(self, width: int) -> int:
        return width * len(self.names)


class SentenceDense(SentenceModule):
    """A linear layer and its activation, perhaps with a residual connection around both."""

    def __init__(self, linear: nn.Linear, activation: str, source: str, target: str, residual: nn.Module | None = None):
        super().__init__(source, target, linear.in_features)
        self.linear, self.activation, self.residual = linear, ACTIVATIONS[activation](), residual

    def forward(self, x: Tensor) -> Tensor:  # (..., in) -> (..., out)
        x = x.to(self.linear.weight.dtype)
        y = self.activation(self.linear(x))
        return y if self.residual is None else y + self.residual(x)

    def output_width(self, width: int) -> int:
        return self.linear.out_features


class SentenceLayerNorm(SentenceModule):
    def __init__(self, norm: nn.LayerNorm):
        super().__init__(width=len(norm.weight))
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:  # (B, W) -> (B, W)
        return self.norm(x.to(self.norm.weight.dtype))


class SentenceNormalize(SentenceModule):
    """Vectors of length one."""

    def forward(self, x: Tensor) -> Tensor:  # (..., W) -> (..., W)
        return F.normalize(x, dim=-1)
