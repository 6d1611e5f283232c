"""Products in lower precision, for a model that is used on a CPU and no longer trained: int8, or bf16.

Only products with large weights are lowered.  Norms, softmax, embedded words, cells and small heads stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.position import Position
from regard.attention.score import Score
from regard.errors import Problem, UsageProblem

Precision = Literal["float32", "bf16", "int8"]
SMALLEST, FEWEST = 2**16, 64  # numbers of a weight that is lowered, and its outputs
TINY = 1e-30  # a step where all numbers are the same
USUAL = 64  # rows, for which weights are laid out: others do as well
AGAIN = "load it again in float32"
NEEDS = {"int8": ("avx512_vnni", "avx_vnni", "amx_int8"), "bf16": ("avx512_bf16", "amx_bf16")}  # any of them


def lowered(model: nn.Module, precision: Precision) -> nn.Module:
    """The same model, its products in this precision from now on.  It can be neither trained nor saved any more."""
    if precision == "float32":
        return model
    check_processor(precision)
    with torch.inference_mode():
        lower_tables(model, precision)
        for part in list(model.modules()):
            if not isinstance(part, Score | Position):  # small, and a softmax follows
                for name, line in part.named_children():
                    if is_large(line, nn.Linear):
                        setattr(part, name, Lowered(cast(nn.Linear, line), precision))
    return unsaved(model, precision)


def lower_tables(model: nn.Module, precision: Precision) -> None:
    """Tables of words; and lines whose weights they are."""
    found: dict[int, Table] = {}
    for part in cast(Iterable[Any], model.modules()):
        if is_large(part, nn.Embedding) and id(part.weight) not in found:
            found[id(part.weight)] = Table.of(part.weight, precision)
    for part in cast(Iterable[Any], model.modules()):
        if isinstance(part, nn.Embedding | nn.Linear) and id(part.weight) in found:
            part.weight = found[id(part.weight)]


def is_large(part: nn.Module, kind: type[nn.Module]) -> bool:
    weight: Any = getattr(part, "weight", None)
    if type(part) is not kind or isinstance(weight, Table):
        return False
    return weight.numel() >= SMALLEST and len(weight) >= FEWEST


class Int8:
    """A weight as int8, each row (an output) with a scale of its own, and zero in the middle.

    Of inputs each row has the steps between its least and its largest number, so that an answer does not depend on what
    else is in a batch.  Zero is not in the middle there: behind a GELU half of the steps would be wasted.
    """

    def __init__(self, weight: Tensor):  # (V, W)
        scale = weight.abs().amax(1, keepdim=True).clamp_min_(TINY) / 127
        whole = (weight / scale).round_().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(whole, [USUAL, weight.shape[1]])
        self.scale, self.zero = scale[:, 0].contiguous(), torch.zeros(len(weight), dtype=torch.int64)
        self.sum = (whole * scale).sum(1)  # (V,)

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:  # (N, W) -> (N, V)
        least = x.amin(-1, keepdim=True)  # (N, 1)
        step = (x.amax(-1, keepdim=True) - least).div_(255).clamp_min_(TINY)
        whole = (x - least).mul_(step.reciprocal()).sub_(128).round_().to(torch.int8)  # to uint8 is ten times as slow
        whole = whole.view(torch.uint8).bitwise_xor_(128)  # 0 to 255
        weight = self.weight, self.scale, self.zero
        y = torch.ops.onednn.qlinear_pointwise(whole, 1.0, 0, *weight, None, 1.0, 0, torch.float32, "none", [], "")
        y.mul_(step).addcmul_(least, self.sum)  # x = least + step * whole
        return y if bias is None else y.add_(bias)

    def __deepcopy__(self, _: Any) -> Int8:
        return self  # it does not change


class Bf16:
    """A weight in bf16, laid out as oneDNN reads it; what comes out is float32 again."""

    def __init__(self, weight: Tensor):  # (V, W)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), USUAL)

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:  # (N, W) -> (N, V)
        added = None if bias is None else bias.bfloat16()
        return torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self.weight, added, "none", [], "").float()

    def __deepcopy__(self, _: Any) -> Bf16:
        return self


PRODUCTS: dict[str, Callable[[Tensor], Int8 | Bf16]] = {"int8": Int8, "bf16": Bf16}


class Lowered(nn.Module):
    """A line whose weight is kept in lower precision alone."""

    def __init__(self, line: nn.Linear, precision: Precision):
        super().__init__()
        self.in_features, self.out_features, self.precision = line.in_features, line.out_features, precision
        self.product, self.bias = PRODUCTS[precision](line.weight.detach()), line.bias
        self.train(line.training)

    def forward(self, x: Tensor) -> Tensor:  # (N, W) -> (N, V)
        if self.training:
            raise Problem(f"a model in {self.precision} cannot be trained; {AGAIN}")
        return multiplied(x, self.product, self.bias, self.precision)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.precision}"


class Table(nn.Parameter):
    """Words, which are looked up in float32 and compared with states, if they are, in lower precision: what is to be
    written is told by the largest product of a model, whose weight is the embedding's in most of them."""

    precision: Precision
    product: Int8 | Bf16 | None

    @classmethod
    def of(cls, weight: Tensor, precision: Precision) -> Table:  # (V, W)
        """In inference mode: then it is nothing that a step could change, or `packed` would lay out."""
        made = cls(weight.detach().clone(), requires_grad=False)
        made.precision, made.product = precision, None
        return made

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Iterable[type], given: tuple = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        if function is F.linear:
            return cls.compared(*given, **(named or {}))
        return super().__torch_function__(function, types, given, named or {})

    @staticmethod
    def compared(x: Tensor, weight: Table, bias: Tensor | None = None) -> Tensor:  # (N, W) -> (N, V)
        if weight.product is None:  # made when first wanted: most encoders never are
            with torch.inference_mode():
                weight.product = PRODUCTS[weight.precision](weight.as_subclass(Tensor))
        return multiplied(x, weight.product, bias, weight.precision)


def multiplied(x: Tensor, product: Int8 | Bf16, bias: Tensor | None, precision: str) -> Tensor:
    if x.requires_grad or not x.is_cpu:
        raise Problem(f"gradients and GPUs have no way through products in {precision}; {AGAIN}")
    return product(x, bias)


def unsaved(model: nn.Module, precision: Precision) -> nn.Module:
    """The same model, which refuses to be saved: its weights are no longer what they were."""

    def refuse(*_: Any) -> None:
        raise Problem(f"a model in {precision} is not saved, for its weights were rounded; {AGAIN}")

    model.register_state_dict_pre_hook(refuse)
    return model.requires_grad_(False)


def check_processor(precision: str) -> None:
    if precision not in NEEDS:
        raise UsageProblem(f"no precision is called {precision!r}; there are: {', '.join(get_args(Precision))}")
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        raise Problem(f"{precision} on a CPU needs a torch with oneDNN, and this one has none; choose float32")
    if not instructions() & set(NEEDS[precision]):
        needed = " or ".join(NEEDS[precision])
        raise Problem(
            f"this CPU has no instructions for {precision} ({needed}), and is slow or wrong without; choose float32"
        )


def instructions() -> set[str]:
    """Those that this CPU has, by the names that Linux gives them."""
    if hasattr(torch.cpu, "get_capabilities"):  # older releases of torch do not tell
        return {name for name, there in torch.cpu.get_capabilities().items() if there is True}
    told = Path("/proc/cpuinfo")
    return set(told.read_text().split()) if told.is_file() else set()
