"""show: a config, its modules, its parameters and what a token costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import change, did_you_mean, settings_of
from regard.errors import UsageProblem

if TYPE_CHECKING:
    from torch import nn


DEPTH = 2  # dots in the names of the parts that are listed: down to each block, not the matrices in it


@dataclass(frozen=True)
class Shown:
    config: Any
    modules: list[tuple[str, str, int]]  # name, kind, parameters
    parameters: int
    flops_a_token: int

    def lines(self) -> list[str]:
        config = [type(self.config).__name__, *tree(self.config)]
        modules = [f"  {name:<32} {kind:<14} {count:>13,}" for name, kind, count in self.modules]
        costs = [f"parameters        {self.parameters:,}", f"FLOPs a token     {self.flops_a_token:,}"]
        return [*config, "", "modules (parameters; a shared one is counted once)", *modules, "", *costs]


def show(model: str | Path, settings: tuple[str, ...] = ()) -> Shown:
    """A preset by name, with `path=value` settings; the model of a folder, or one in the box."""
    import torch

    from regard.box import boxes
    from regard.models import PRESETS

    module: Any
    model = boxes().get(str(model), model)
    if Path(model).is_dir():
        if settings:
            raise UsageProblem(f"{model} is a model already made: settings change a preset only")
        from regard.commands.load import load

        module = load(model, "cpu").model
        module = getattr(module, "encoder", module) if hasattr(module, "heads") else module
    else:
        with torch.device("meta"):  # nothing is allocated: the largest model can be shown anywhere
            module = make_model(configured(str(model), settings, PRESETS))
    parts = [(name, part) for name, part in module.named_modules() if name and name.count(".") <= DEPTH]
    modules = [(name, type(part).__name__, size(part)) for name, part in parts if size(part)]
    return Shown(module.config, modules, size(module), flops(module))


def presets() -> list[str]:
    from regard.models import PRESETS

    return [f"{name:<20} {type(config).__name__}" for name, config in PRESETS.items()]


def configured(preset: str, settings: tuple[str, ...], presets: Mapping[str, Any]) -> Any:
    """The config of one of these presets, with `path=value` changes."""
    if preset not in presets:
        raise UsageProblem(f"no such model is called {preset!r}; {did_you_mean(preset, presets)}")
    config = presets[preset]
    for setting in settings:
        config = change(config, *settings_of(setting))
    return config


def make_model(config: Any) -> Any:
    from regard.layers.host_memory import check_model
    from regard.models import FAMILIES, PUBLISHED

    kinds = dict([*FAMILIES.values(), *((type(family.default), family.kind) for family in PUBLISHED.values())])
    check_model(lambda: kinds[type(config)](config))
    return kinds[type(config)](config)


def flops(module: Any) -> int:
    """Forward FLOPs of a token (of a translator: one of the source and one of the target): two for each weight it is
    multiplied with.  Tables are looked up, not multiplied; the square of the length is left out, being small at
    sentence lengths."""
    from torch import nn

    from regard.layers.stack import Stack

    embedded = {id(p) for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}

    def matrices(part: nn.Module) -> int:
        return sum(p.numel() for p in part.parameters() if p.ndim == 2 and id(p) not in embedded)

    stacks = [part for part in module.modules() if isinstance(part, Stack)]
    shared = sum(matrices(s.blocks[n]) for s in stacks for n in s.order) - sum(matrices(s.blocks) for s in stacks)
    out = getattr(module, "out", None)
    tied = out.weight.numel() if out is not None and id(out.weight) in embedded else 0
    return 2 * (matrices(module) + shared + tied)


def size(module: nn.Module) -> int:
    """Its parameters, a shared one counted once."""
    return sum(parameter.numel() for parameter in module.parameters())


def tree(config: Any, indent: str = "  ") -> list[str]:
    lines = []
    for field in fields(config):
        value = getattr(config, field.name)
        nested = is_dataclass(value)
        lines.append(f"{indent}{field.name}" if nested else f"{indent}{field.name}: {value}")
        lines += tree(value, indent + "  ") if nested else []
    return lines
