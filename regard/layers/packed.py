"""Products over and over with the same weights, as reading and writing need them on a CPU.

With few rows oneDNN is about twice as fast, with thousands still by a tenth, where weights lie as its kernels read
them; torch lays them out so when it compiles, and this does by the same operators.  The layout is a copy, kept as long
as the weights are there and are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import ref

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.layers.changed import mark_of

ROWS = range(2, 8193)  # with one, weights are read as fast as memory goes either way; more were not tried
SMALLEST = 2**16  # numbers of a weight
USUAL = 64  # rows, for which weights are laid out: others do as well
MOST = 2**28  # numbers that are laid out: a gigabyte


def packed(device: torch.device | str) -> AbstractContextManager:
    """In here, products on a CPU are made so where it pays."""
    can = torch.device(device).type == "cpu" and torch.backends.mkldnn.is_available()
    return Packed() if can and hasattr(torch.ops.mkldnn, "_linear_pointwise") else nullcontext()


class Packed(TorchFunctionMode):
    def __torch_function__(
        self, function: Callable, types: Iterable[type], given: tuple = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        call = linear if function is F.linear else function
        return call(*given, **(named or {}))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # (N, W) -> (N, V)
    layout = layout_of(weight) if pays(x, weight) else None
    if layout is None:
        return F.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, layout, bias, "none", [], "")


def pays(x: Tensor, weight: Tensor) -> bool:
    few = x.ndim == 2 and len(x) in ROWS and weight.numel() >= SMALLEST and not torch.is_grad_enabled()
    return few and x.dtype == weight.dtype == torch.float32 and not weight.is_inference()


LAYOUTS: dict[int, tuple[ref, tuple[int, int], Tensor]] = {}  # by a weight's id: it, its state, and how it is laid out


def layout_of(weight: Tensor) -> Tensor | None:
    """None where there is no room for more."""
    known, state = LAYOUTS.get(id(weight)), mark_of(weight)
    if known is None or known[0]() is not weight or known[1] != state:
        if sum(layout.numel() for *_, layout in list(LAYOUTS.values())) + weight.numel() > MOST:
            return None
        key = id(weight)
        layout = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), USUAL)
        LAYOUTS[key] = known = ref(weight, lambda _: LAYOUTS.pop(key, None)), state, layout
    return known[2]
