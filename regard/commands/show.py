"""show: a config, its modules, its parameters and what a token costs."""

from __future__ import annotations

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
    """A preset by name, with `path=value` settings, or the model of a folder."""
    import torch

    module: Any
    if Path(model).is_dir():
        if settings:
            raise UsageProblem(f"{model} is a model already made: settings change a preset only")
        from regard.commands.load import load

        module = load(model, "cpu").model
    else:
        with torch.device("meta"):  # nothing is allocated: the largest model can be shown anywhere
            module = make_model(configured(str(model), settings))
    parts = [(name, part) for name, part in module.named_modules() if name and name.count(".") <= DEPTH]
    modules = [(name, type(part).__name__, size(part)) for name, part in parts if size(part)]
    return Shown(module.config, modules, size(module), flops(module))


def presets() -> list[str]:
    from regard.models import PRESETS

    return [f"{name:<20} {type(config).__name__}" for name, config in PRESETS.items()]


def configured(preset: str, settings: tuple[str, ...] = ()) -> Any:
    """A preset's config, with `path=value` changes."""
    from regard.models import PRESETS

    if preset not in PRESETS:
        raise UsageProblem(f"no model is called {preset!r}; {did_you_mean(preset, PRESETS)}")
    config = PRESETS[preset]
    for setting in settings:
        config = change(config, *settings_of(setting))
    return config


def make_model(config: Any) -> Any:
    from regard.models import FAMILIES

    return next(module for kind, module in FAMILIES.values() if isinstance(config, kind))(config)


def flops(module: Any) -> int:
    """Forward FLOPs of one target token and one source token: two for each weight a token is multiplied with.
    Tables are looked up, not multiplied; the square of the length is left out, being small at sentence lengths."""
    from torch import nn

    embedded = {id(p) for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    matrices = {id(p): p.numel() for p in module.parameters() if p.ndim == 2 and id(p) not in embedded}
    out = module.out.weight
    return 2 * (sum(matrices.values()) + (out.numel() if id(out) in embedded else 0))


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
