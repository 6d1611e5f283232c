"""How what a layer says joins the stream: added to it, with the norm before the layer or after the sum."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.norm import in_precision


class Residual(nn.Module):
    """Split in two, so that a layer can remember what it reads before it answers."""

    def __init__(self, norm: nn.Module, dropout: float, *, norm_first: bool):
        super().__init__()
        self.norm, self.dropout, self.norm_first = norm, nn.Dropout(dropout), norm_first

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.norm_first else x

    def after(self, x: Tensor, said: Tensor) -> Tensor:
        x = x + self.dropout(said)
        if self.norm_first:
            return x
        # Trained in half precision, a stream that is normed after every sum is in half precision too: its numbers stay
        # near 1, and half of a step's memory traffic is this stream.  One that is never normed would lose what is added
        return in_precision(self.norm(x)) if self.training else self.norm(x)
