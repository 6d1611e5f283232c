"""What makes training faster, or might, each as something that can be taken out or put in, for `training_parts`.

What has proved itself is in the library, and is taken out here to see what it is worth; the rest is tried, not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention import attend
from regard.attention.attention import Attention
from regard.layers import residual
from regard.layers.recurrent import Recurrent
from regard.layers.stack import Stack
from regard.models import encoder
from regard.objectives import reading
from regard.objectives.objective import Asked
from regard.rows import Rows

Change = Callable[[Asked], AbstractContextManager]


@contextmanager
def patched(owner: Any, name: str, new: Any) -> Iterator[None]:
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


def all_scores(asked: Asked) -> AbstractContextManager:
    """The scores of all words at all targets at once, by a product with a table as it is."""
    return patched(reading, "pays", lambda states: False)


def three_products(asked: Asked) -> AbstractContextManager:
    """Queries, keys and values each by a product of its own."""
    return patched(Attention, "joins", lambda attention, x, rows: False)


def ragged(asked: Asked) -> AbstractContextManager:
    """Rows that are equally long by the kernel for all rows."""
    return patched(attend, "rectangle_can", lambda *given: False)


def by_products(asked: Asked) -> AbstractContextManager:
    """Attention by one product after the other, where it is by torch's own kernels."""
    return sdpa_kernel(SDPBackend.MATH)


def packed_decoder(asked: Asked) -> AbstractContextManager:
    """A decoder of LSTMs that reads its rows as they are, and fills none up."""
    return patched(Recurrent, "states", lambda layers, x, rows, start: layers(x, rows, start)[0])


@contextmanager
def wide_stream(asked: Asked) -> Iterator[None]:
    """States between layers in float32."""
    with patched(residual, "in_precision", lambda x: x), patched(encoder, "in_precision", lambda x: x):
        yield


def filled(tokens: int) -> Change:
    """Every batch has as many tokens, by a row of zeros behind the others: shapes are the same at every step."""
    read = Stack.read

    def whole(stack: Stack, x: Tensor, rows: Rows, source: Any = None) -> Tensor:
        spare = tokens - rows.total
        if source is not None or spare < 1:
            return read(stack, x, rows, source)
        longer = Rows(F.pad(rows.offsets, (0, 1), value=tokens), tokens, max(rows.longest, spare))
        return read(stack, F.pad(x, (0, 0, 0, spare)), longer)[: rows.total]

    return lambda asked: patched(Stack, "read", whole)


@contextmanager
def compiled_embedding(asked: Asked) -> Iterator[None]:
    model: Any = asked.model
    embed = model.encoder.embed
    embed.compile(dynamic=True)
    yield
    embed._compiled_call_impl = None
