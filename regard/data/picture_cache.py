"""Pictures decoded once, into a file of bytes that is mapped into memory; and batches of them for training.

Letters: N pictures of a set, B of a batch, H height, W width, C channels.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.checkpoints.files import (
    PARTIAL,
    check_entries,
    explained,
    file_entries,
    read_checked_json,
    write_checked_json,
)
from regard.data.batches import Order
from regard.data.images import Gallery
from regard.data.preprocessor import Preprocessor
from regard.errors import Problem
from regard.rows import Rows, Tokens

PIXELS, FACTS = "pictures.npy", "pictures.json"
THREADS = min(8, os.cpu_count() or 1)  # pillow decodes beside Python
TOGETHER = 512  # pictures decoded at a time


@dataclass(frozen=True, eq=False)
class PictureCache:
    gallery: Gallery
    pixels: np.ndarray  # (N, H, W, C) bytes

    @classmethod
    def make(cls, gallery: Gallery, preprocessor: Preprocessor, folder: Path) -> PictureCache:
        """Decode a set of pictures, or map what was decoded before, if it was this."""
        if preprocessor.fixed is None:
            raise Problem("this model takes pictures as large as they are: for training, resize them to one size")
        facts = facts_of(gallery, preprocessor)
        if not is_made(folder, facts):
            decode(gallery, preprocessor, folder)
            files = file_entries(folder, [PIXELS])
            write_checked_json(folder / FACTS, {**facts, "files": files})  # last: what it describes is whole
        return cls(gallery, np.load(folder / PIXELS, mmap_mode="r", allow_pickle=False))

    def __len__(self) -> int:
        return len(self.pixels)


def facts_of(gallery: Gallery, preprocessor: Preprocessor) -> dict[str, Any]:
    how = {name: getattr(preprocessor, name) for name in ("size", "crop", "resample", "channels")}
    return json.loads(json.dumps({"stamp": gallery.stamp, "count": len(gallery), **how}))


def is_made(folder: Path, facts: dict[str, Any]) -> bool:
    """Whether these pictures were decoded before, and lie there as they were written; damage is said."""
    if not (folder / FACTS).exists():
        return False
    try:
        said = read_checked_json(folder / FACTS)
        files = said.pop("files")
        if said == facts:
            check_entries(folder, files)
        return said == facts
    except Problem as problem:
        print(f"{problem} The pictures are decoded anew.", file=sys.stderr)
        return False


def decode(gallery: Gallery, preprocessor: Preprocessor, folder: Path) -> None:
    shape = len(gallery), *(preprocessor.fixed or ()), preprocessor.channels
    partial = folder / f".{PIXELS}{PARTIAL}{os.getpid()}"
    with explained(folder / PIXELS, int(np.prod(shape))):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FACTS).unlink(missing_ok=True)
            file = np.lib.format.open_memmap(partial, "w+", np.uint8, shape)
            for number, pixels in enumerate(fitted(gallery, preprocessor)):
                file[number] = pixels
            file.flush()
            partial.replace(folder / PIXELS)
        finally:
            partial.unlink(missing_ok=True)


def fitted(gallery: Gallery, preprocessor: Preprocessor) -> Iterator[np.ndarray]:  # (H, W, C) each
    def one(number: int) -> np.ndarray:
        return preprocessor.fitted(gallery.read(number))

    with ThreadPoolExecutor(THREADS) as pool:
        for numbers in portions(len(gallery)):
            yield from pool.map(one, numbers)


def portions(count: int) -> Iterator[range]:
    return (range(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER))


class PictureBatches(Order):
    """Batches of so many pictures, in another order each epoch: their numbers and labels; and their pixels, where these
    do not lie on the device already."""

    def __init__(self, cache: PictureCache, wanted: np.ndarray, size: int, seed: int, *, on_device: bool):
        super().__init__(np.ones(len(cache)), size, seed)
        self.cache, self.wanted, self.on_device = cache, wanted, on_device

    def at(self, position: int) -> dict[str, Any]:
        numbers = self.numbers_at(position)
        rows = Rows.even(len(numbers), 1)  # a picture counts as one token: speed is told in pictures
        batch = {"numbers": Tokens(torch.from_numpy(numbers), rows), "wanted": torch.from_numpy(self.wanted[numbers])}
        if self.on_device:
            return batch
        ordered = np.argsort(numbers)  # as they lie in the file
        pixels = np.empty((len(numbers), *self.cache.pixels.shape[1:]), np.uint8)
        pixels[ordered] = self.cache.pixels[numbers[ordered]]
        return batch | {"pixels": torch.from_numpy(pixels)}
