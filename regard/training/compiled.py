"""Compiled training: the blocks of a model, and losses, as kernels that torch.compile makes for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.objectives.cross_entropy import fused_losses


@contextmanager
def compiled(module: nn.Module, dynamic: bool | None = True) -> Iterator[None]:
    """In here, what a model has several of is compiled, or all of it where there is no such thing; losses are too.

    Rows differ from batch to batch, so code is made for any number of them; None: for the first batch's numbers, and
    again for any once they change.
    """
    parts = repeated(module) or [module]
    for part in parts:
        part.compile(dynamic=dynamic)
    try:
        with fused_losses():
            yield
    finally:
        for part in parts:
            part._compiled_call_impl = None  # torch has no word for it


def repeated(module: nn.Module) -> list[nn.Module]:
    """What a model has several of, one like the other: its blocks.  Compiled each by itself they share their code, and
    it is made in seconds, where that of the whole model takes minutes."""
    found: list[nn.Module] = []
    for part in module.children():
        alike = isinstance(part, nn.ModuleList) and len(part) > 1 and len({type(one) for one in part}) == 1
        found += list(part) if alike else repeated(part)  # type: ignore[call-overload]
    return found
