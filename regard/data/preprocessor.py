"""How a model wants its pictures: resized, perhaps cropped, and their numbers scaled; preprocessor_config.json, or the
image processor of processor_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.images import image_of, in_channels
from regard.data.processor_config import FILE, IMAGE_PARTS, ProcessorConfig
from regard.errors import Problem

LARGEST = 10_000  # pixels of a side
BILINEAR = 2  # as pillow counts its ways to resize
Size = tuple[int, int]  # height, width


@dataclass(frozen=True)
class Preprocessor:
    size: Size | int | None = None  # to which pictures are resized; a number: their shorter side; None: as they are
    crop: Size | None = None  # what is taken out of the middle then
    resample: int = BILINEAR
    factor: float = 1 / 255  # times which bytes are taken
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # of each channel
    spread: tuple[float, ...] = (0.5, 0.5, 0.5)
    theirs: dict[str, Any] = field(default_factory=dict)  # the file, what we do not know included
    contents: Mapping[str, bytes] = field(default_factory=dict)  # of the files as they lay there, by name

    @classmethod
    def square(cls, side: int, channels: int = 3) -> Preprocessor:
        """For pictures of this side, resized; numbers from -1 to 1."""
        middle = (0.5,) * channels
        return cls(size=(side, side), mean=middle, spread=middle)

    @classmethod
    def load(cls, folder: Path, side: int, channels: int) -> Preprocessor:
        """What a folder says of its model, whose pictures have this side; where it says nothing, they are resized."""
        config = ProcessorConfig.load(folder, IMAGE_PARTS)
        if config is None:
            return cls.square(side, channels)
        try:
            return replace(cls.of(config.settings, channels), contents=config.files)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Problem(f"{config.path} cannot be used ({error}). Fetch it again.") from error

    @classmethod
    def of(cls, theirs: dict[str, Any], channels: int = 3) -> Preprocessor:
        """From the file's settings."""
        normed = theirs.get("do_normalize", True)
        mean, spread = (numbers(theirs.get(key, 0.5), channels, key) for key in ("image_mean", "image_std"))
        return cls(
            size_of(theirs.get("size", 224)) if theirs.get("do_resize", True) else None,
            square_of(theirs.get("crop_size", 224)) if theirs.get("do_center_crop", False) else None,
            int(theirs.get("resample", BILINEAR)),
            float(theirs.get("rescale_factor", 1 / 255)) if theirs.get("do_rescale", True) else 1.0,
            mean if normed else (0.0,) * channels,
            spread if normed else (1.0,) * channels,
            dict(theirs),
        )

    @property
    def channels(self) -> int:
        return len(self.mean)

    @property
    def fixed(self) -> Size | None:
        """The size that every picture has in the end, if it is one."""
        return self.crop or (self.size if isinstance(self.size, tuple) else None)

    def fitted(self, pixels: np.ndarray) -> np.ndarray:  # (H, W, any) -> (h, w, C), bytes
        """A picture resized and cropped, in as many channels as the model reads."""
        pixels = in_channels(pixels, self.channels)
        if self.size is not None:
            pixels = resized(pixels, resolved(self.size, pixels), self.resample)
        return pixels if self.crop is None else cropped(pixels, self.crop)

    def scaled(self, bytes_: Tensor) -> Tensor:  # (..., h, w, C) bytes -> (..., C, h, w)
        """Numbers of which `normal` makes what the model reads: from 0 to 1, as augmentation wants them."""
        return bytes_.movedim(-1, -3).float() * self.factor

    def normal(self, pixels: Tensor) -> Tensor:  # (..., C, h, w) -> (..., C, h, w)
        channels = zip(pixels.unbind(-3), self.mean, self.spread, strict=True)  # plain numbers: no device is waited for
        return torch.stack([(one - mean) / spread for one, mean, spread in channels], -3)

    def seen(self, pixels: np.ndarray) -> np.ndarray:  # (C, h, w) -> (h, w, 3), from 0 to 1
        """For people, what the model was shown."""
        shown = pixels.transpose(1, 2, 0) * np.array(self.spread) + np.array(self.mean)
        return np.broadcast_to(np.clip(shown, 0, 1), (*shown.shape[:2], 3)).astype(np.float32)

    def files(self) -> dict[str, bytes]:
        """The file as it came, or one that others read alike."""
        if self.contents:
            return dict(self.contents)
        height, width = self.fixed or (224, 224)
        told = {
            "do_resize": self.size is not None, "size": {"height": height, "width": width}, "resample": self.resample,
            "do_rescale": True, "rescale_factor": self.factor, "do_normalize": True, "image_mean": list(self.mean),
            "image_std": list(self.spread), "image_processor_type": "ViTImageProcessor",
        }  # fmt: skip
        return {FILE: (json.dumps(told, indent=2, sort_keys=True) + "\n").encode()}


def numbers(given: Any, channels: int, key: str) -> tuple[float, ...]:
    found = tuple(map(float, given)) if isinstance(given, list | tuple) else (float(given),) * channels
    if len(found) != channels or (key == "image_std" and not all(found)):
        raise ValueError(f"{key} is {given}, and the model reads {channels} channels")
    return found


def size_of(given: Any) -> Size | int:
    if isinstance(given, dict) and "shortest_edge" in given:
        return limited(int(given["shortest_edge"]))
    return square_of(given)


def square_of(given: Any) -> Size:
    if isinstance(given, dict):
        return limited(int(given["height"])), limited(int(given["width"]))
    return limited(int(given)), limited(int(given))


def limited(side: int) -> int:
    if not 1 <= side <= LARGEST:
        raise ValueError(f"a side of {side} pixels")
    return side


def resolved(size: Size | int, pixels: np.ndarray) -> Size:
    """The size of a picture whose shorter side is to have so many pixels."""
    if isinstance(size, tuple):
        return size
    height, width = pixels.shape[:2]
    shorter = min(height, width)
    return limited(max(height * size // shorter, 1)), limited(max(width * size // shorter, 1))


def resized(pixels: np.ndarray, size: Size, resample: int) -> np.ndarray:
    if pixels.shape[:2] == size:
        return pixels
    found = np.asarray(image_of(pixels).resize((size[1], size[0]), resample=resample))
    return found if found.ndim == 3 else found[..., None]


def cropped(pixels: np.ndarray, size: Size) -> np.ndarray:
    """The middle of a picture; where it is smaller, black lies around it."""
    missing = [max(wanted - there, 0) for wanted, there in zip(size, pixels.shape[:2], strict=True)]
    if any(missing):
        around = [((some + 1) // 2, some // 2) for some in missing]
        pixels = np.pad(pixels, [*around, (0, 0)])
    top, left = ((there - wanted) // 2 for wanted, there in zip(size, pixels.shape[:2], strict=True))
    return pixels[top : top + size[0], left : left + size[1]]
