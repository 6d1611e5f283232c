"""What a config may ask for: sizes that can be, shares between 0 and 1, settings that must agree.  Checked before
anything is made of it, since a config may come from a stranger's file."""

from __future__ import annotations

from typing import Any

from regard.errors import UsageProblem

LARGEST = 10**8  # beyond any model, and no product of two overflows
DEEPEST = 1000  # layers are made one by one, even where their numbers take no memory


def check_sizes(config: Any, *names: str, largest: int = LARGEST) -> None:
    """None is for whoever reads the config to fill in."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 1 <= value <= largest:
            raise UsageProblem(f"{name}={value} in {type(config).__name__}: give 1 to {largest:,}")


def check_shares(config: Any, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise UsageProblem(f"{name}={getattr(config, name)} in {type(config).__name__}: give 0 or more, below 1")


def check_equal(settings: dict[str, Any]) -> None:
    """Settings by their paths in the whole config."""
    if len(set(settings.values())) > 1:
        told = ", ".join(f"{path}={value}" for path, value in settings.items())
        raise UsageProblem(f"{told}: these must be equal; change them together")
