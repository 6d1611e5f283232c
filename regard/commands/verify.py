"""verify: is a model's folder, or a run's, as it was written, and can it be used?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.errors import Problem


def verify(folder: str | Path, device: str | None = "cpu") -> Iterator[str]:
    """What holds of a folder, told as it is found; the first fault is raised."""
    from regard.checkpoints.files import MANIFEST, check_folder
    from regard.checkpoints.weights import not_finite, weights_of
    from regard.commands.load import load

    folder = Path(folder)
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder")
    written = sorted(place.parent for place in folder.rglob(MANIFEST))
    for place in written:
        check_folder(place)
        yield f"{place}: every file is as it was written"
    if not written:
        yield f"{folder}: there is no {MANIFEST}, so whether its files are as they were written cannot be told"
    model = load(folder, device).model
    tensors = weights_of(model)
    if broken := not_finite(tensors):
        raise Problem(f"{folder}: not all numbers are finite in {', '.join(broken)}. Fetch or train it again.")
    yield f"{type(model).__name__}, {len(tensors):,} tensors, each with its place, all numbers finite"
