"""Where a model runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.errors import UsageProblem


def moved(model: nn.Module, device: torch.device | str | None) -> nn.Module:
    """The model on a device; by default a GPU where there is one."""
    try:
        return model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError) as error:  # torch's ways to say that there is none, or no room on it
        reason = str(error).splitlines()[0]
        raise UsageProblem(f"device {str(device)!r} cannot be used here ({reason}); try cpu") from error


@contextmanager
def settled(model: nn.Module) -> Iterator[None]:
    """In here a model drops nothing.  One that does not learn is left alone: to tell all of its parts takes longer than
    many a step."""
    learns = model.training
    if learns:
        model.eval()
    try:
        yield
    finally:
        if learns:
            model.train()
