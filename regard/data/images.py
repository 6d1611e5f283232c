"""Pictures from files: one as an array of bytes, whatever its format; and many with their labels, from a folder of
classes, a table of paths, MNIST's IDX files, or an archive of folders.  Needs pillow.

Letters: H height, W width, C channels.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import Problem

if TYPE_CHECKING:
    from PIL.Image import Image

LIMIT = 64_000_000  # pixels that a picture may unfold to
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")  # those whose readers run nothing else
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, KeyError, IndexError, TypeError, MemoryError)


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures with their labels; a picture is read when it is asked for."""

    source: str
    names: list[str]  # of each picture, for people: its path
    labels: list[str]  # "" where there is none
    read: Callable[[int], np.ndarray]  # of a picture's number: (H, W, C)
    stamp: str = ""  # changes when the pictures do
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)

    def place(self, number: int) -> str:
        return self.names[number]

    def lines(self) -> list[str]:
        """The facts as text, the warnings last."""
        kinds = len(set(self.labels))
        return [f"{self.source}: {len(self):,} pictures of {kinds:,} kinds", *(f"warning: {n}" for n in self.notes)]

    def take(self, numbers: Sequence[int], source: str) -> Gallery:
        chosen = list(numbers)
        names, labels = ([some[n] for n in chosen] for some in (self.names, self.labels))
        return Gallery(source, names, labels, lambda n: self.read(chosen[n]), f"{self.stamp} {source}")

    def __add__(self, other: Gallery) -> Gallery:
        def read(number: int) -> np.ndarray:
            return self.read(number) if number < len(self) else other.read(number - len(self))

        source, notes = f"{self.source} + {other.source}", self.notes + other.notes
        names, labels = self.names + other.names, self.labels + other.labels
        return Gallery(source, names, labels, read, f"{self.stamp} {other.stamp}", notes)


def read_picture(path: str | Path, channels: int = 3, limit: int = LIMIT) -> np.ndarray:  # (H, W, C) uint8
    """The picture of a file, upright as it was taken; of an animation, the first."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise Problem(f"{path} cannot be read ({error.strerror}). Check the path.") from error
    return decoded(content, str(path), channels, limit)


def decoded(content: bytes, name: str, channels: int = 3, limit: int = LIMIT) -> np.ndarray:  # (H, W, C) uint8
    """The picture that a file's bytes stand for; which format it is, they say themselves, and not the file's name."""
    image_kind, operations = pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are looked at here, and of odd details
            image = image_kind.open(io.BytesIO(content), formats=FORMATS)
            if image.width * image.height > limit:
                raise Problem(
                    f"{name} has {image.width} x {image.height} pixels, more than the {limit:,} that are read; "
                    "make it smaller"
                )
            image.load()
            return pixels_of(operations.exif_transpose(image), name, channels)
    except Problem:
        raise
    except image_kind.DecompressionBombError as error:
        raise Problem(f"{name}: {error}; make it smaller") from None
    except BROKEN as error:
        reason = "it is empty" if not content else str(error).replace(" <_io.BytesIO object", "").split(" at 0x")[0]
        raise Problem(
            f"{name} cannot be read as a picture ({reason}). Fetch or save it again, as PNG or JPEG; "
            f"there are: {', '.join(FORMATS)}."
        ) from error


def pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise Problem("reading pictures needs pillow; install it by: pip install 'regard[vision]'") from None
    return Image, ImageOps


def pixels_of(image: Image, name: str, channels: int) -> np.ndarray:  # (H, W, C) uint8
    """Colours, or shades of grey where C is 1: palettes looked up, inks mixed, 16 bits made 8; what can be seen through
    is laid on white."""
    if image.mode == "F":
        raise Problem(f"{name} holds fractions, and what is white in it nobody knows; save it with 8 bits a channel")
    if image.mode.startswith("I"):  # 16 bits a pixel, or as many in 32
        wide = np.asarray(image)
        image = image_of(np.clip(wide >> 8 if wide.max(initial=0) > 255 else wide, 0, 255).astype(np.uint8))
    if image.mode == "LAB":  # which pillow makes colours, and not grey
        image = image.convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = image_of(np.full((image.height, image.width, 4), 255, np.uint8))
        white.alpha_composite(image)
        image = white
    found = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return found[..., None] if channels == 1 else found


def image_of(pixels: np.ndarray) -> Image:  # (H, W) or (H, W, C) uint8
    kind, _ = pillow()
    return kind.fromarray(pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)


def in_channels(pixels: np.ndarray, channels: int) -> np.ndarray:  # (H, W, any) -> (H, W, C)
    """The same picture in colours, or in shades of grey."""
    if pixels.shape[2] == channels:
        return pixels
    found = np.asarray(image_of(pixels).convert("L" if channels == 1 else "RGB"))
    return found[..., None] if channels == 1 else found


def files_below(folder: Path) -> Iterator[Path]:
    """The pictures of a folder and of those in it, in an order that does not change; hidden files are none."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            yield path
