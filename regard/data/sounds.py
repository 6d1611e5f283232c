"""Sound from files: WAV by itself, all else through soundfile; mixed to one channel, resampled, in pieces.

A recording is read as float32 from -1 to 1.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from regard.errors import Problem

PIECE = 2**20  # samples of all channels that are decoded at once
RATES = range(1000, 768_001)  # samples a second; beyond these a header is wrong
CHANNELS = range(1, 257)
UNKNOWN = (0, 0xFFFFFFFF)  # what writers that stream put where the length of the data belongs
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
AGAIN = "Record or convert it again."
Source = Path | bytes  # a file, or what one holds


class Decoder(Protocol):
    @property
    def rate(self) -> int:
        """Samples a second."""

    def pieces(self) -> Iterator[np.ndarray]:
        """(samples, channels) float32, some after others."""


@dataclass(frozen=True)
class Wave:
    """A WAV file whose header has been read; `begin` is where its samples lie, and `size` how many bytes of them."""

    file: BinaryIO
    name: str
    kind: int
    rate: int
    channels: int
    bits: int
    size: int

    def pieces(self) -> Iterator[np.ndarray]:
        width = self.bits // 8 * self.channels
        left, many = self.size, max(PIECE // self.channels, 1) * width
        while left > 0 and (some := self.file.read(min(many, left))):
            left -= len(some)
            yield self.decoded(some[: len(some) // width * width]).reshape(-1, self.channels)

    def decoded(self, some: bytes) -> np.ndarray:
        """Numbers of any size as float32; those of 8 bits have no sign, and lie around 128."""
        if self.kind == FLOAT:
            return np.frombuffer(some, f"<f{self.bits // 8}").astype(np.float32)
        if self.bits == 8:
            return (np.frombuffer(some, np.uint8).astype(np.float32) - 128) / 128
        if self.bits == 24:
            wide = np.zeros((len(some) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(some, np.uint8).reshape(-1, 3)
            return wide.view("<i4")[:, 0].astype(np.float32) / 2**31
        return (np.frombuffer(some, f"<i{self.bits // 8}") / 2.0 ** (self.bits - 1)).astype(np.float32)


def read_wave(file: BinaryIO, name: str) -> Wave:
    """Read the header of a WAV file, up to where its samples begin."""
    file.read(12)
    form: tuple[int, int, int, int] | None = None
    while len(head := file.read(8)) == 8:
        kind, size = head[:4], int.from_bytes(head[4:], "little")
        if kind == b"data":
            if form is None:
                raise Problem(f"{name}: the samples come before it is said how they are written. {AGAIN}")
            return Wave(file, name, *form, checked_size(file, name, size))
        if kind == b"fmt ":
            form = read_form(file.read(size + size % 2) if size < 2**16 else b"", name)
        else:
            file.seek(size + size % 2, io.SEEK_CUR)
    raise Problem(f"{name} is a WAV file without samples: it was cut in its header. {AGAIN}")


def read_form(said: bytes, name: str) -> tuple[int, int, int, int]:
    """How samples are written: kind, rate, channels, bits."""
    if len(said) < 16:
        raise Problem(f"{name}: its header is cut, and does not say how samples are written. {AGAIN}")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", said[:16])
    if kind == EXTENSIBLE and len(said) >= 26:
        kind = int.from_bytes(said[24:26], "little")
    if (kind, bits) not in [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)]:
        raise Problem(f"{name}: samples of kind {kind} with {bits} bits cannot be read; convert it to 16-bit PCM")
    if rate not in RATES or channels not in CHANNELS:
        raise Problem(
            f"{name}: its header says {rate} samples a second in {channels} channels, which cannot be. {AGAIN}"
        )
    return kind, rate, channels, bits


def checked_size(file: BinaryIO, name: str, said: int) -> int:
    """The bytes of the samples: what is there counts, whatever the header says."""
    here = file.tell()
    there = file.seek(0, io.SEEK_END) - here
    file.seek(here)
    if said not in UNKNOWN and said > there:
        warnings.warn(
            f"{name} was cut: {there:,} of {said:,} bytes of its samples are there, and are read", stacklevel=4
        )
    return there if said in UNKNOWN else min(said, there)


@dataclass(frozen=True)
class Other:
    """Whatever soundfile can read: FLAC, Ogg, MP3, AIFF."""

    file: Any
    name: str
    rate: int

    def pieces(self) -> Iterator[np.ndarray]:
        many = max(PIECE // self.file.channels, 1)
        while len(some := told_of(self.name, lambda: self.file.read(many, "float32", always_2d=True))):
            yield some


def read_other(file: BinaryIO, name: str) -> Other:
    try:
        import soundfile
    except (ImportError, OSError):  # or the library that it wraps is missing
        raise Problem(
            f"{name} is no WAV file; to read others soundfile is needed: pip install 'regard[audio]'"
        ) from None
    found = told_of(name, lambda: soundfile.SoundFile(file))
    return Other(found, name, found.samplerate)


def told_of(name: str, read: Any) -> Any:
    try:
        return read()
    except (RuntimeError, ValueError, TypeError) as error:  # soundfile's are RuntimeErrors
        raise Problem(f"{name} cannot be read as sound ({error}). {AGAIN}") from error


@contextmanager
def opened(source: Source, name: str = "") -> Iterator[Decoder]:
    """A recording, by what its first bytes say it is."""
    name = name or (str(source) if isinstance(source, Path) else "the recording")
    try:
        file: BinaryIO = open(source, "rb") if isinstance(source, Path) else io.BytesIO(source)  # noqa: SIM115
    except OSError as error:
        raise Problem(f"{name} cannot be read ({error.strerror}). Check the path.") from error
    with file:
        begin = file.read(12)
        if not begin:
            raise Problem(f"{name} is empty. {AGAIN}")
        file.seek(0)
        is_wave = begin[:4] in (b"RIFF", b"RF64") and begin[8:] == b"WAVE"
        yield read_wave(file, name) if is_wave else read_other(file, name)


def stream_sound(source: Source, rate: int, name: str = "") -> Iterator[np.ndarray]:
    """A recording of any length as one channel at this rate, in pieces; what is no number is refused."""
    name = name or (str(source) if isinstance(source, Path) else "the recording")
    with opened(source, name) as decoder:
        heard = 0
        for piece in resampled(checked(decoder, name), decoder.rate, rate):
            heard += len(piece)
            yield piece
        if not heard:
            raise Problem(f"{name} has no samples: there is nothing to hear. {AGAIN}")


def read_sound(source: Source, rate: int, name: str = "") -> np.ndarray:  # (samples,)
    """The whole recording."""
    return np.concatenate([*stream_sound(source, rate, name)])


def checked(decoder: Decoder, name: str) -> Iterator[np.ndarray]:
    """Pieces of one channel: the mean of all.  A sample that is not finite is refused, for one is enough to spoil all
    that is computed of a recording."""
    at = 0
    for piece in decoder.pieces():
        mixed = piece.mean(1, dtype=np.float32) if piece.shape[1] > 1 else piece[:, 0]
        if not np.isfinite(mixed).all():
            first = at + int(np.argmin(np.isfinite(mixed)))
            raise Problem(f"{name}: the sample at {first / decoder.rate:.3f} s is no finite number. {AGAIN}")
        at += len(mixed)
        yield mixed


def resampled(pieces: Iterator[np.ndarray], rate: int, to: int) -> Iterator[np.ndarray]:
    """The same sound at another rate: a windowed sinc in phases (Crochiere and Rabiner, 1983).  Pieces overlap by what
    the filter reaches, so that they come out as if all had been there at once."""
    if rate == to:
        yield from pieces
        return
    up, down, reach, window = phases(rate, to)
    held, begun = np.zeros(reach, np.float32), False
    for piece in pieces:
        held, begun = np.concatenate([held, piece]), True
        size = (len(held) - 2 * reach) // down * down
        if size > 0:
            yield turned(held[: size + 2 * reach], up, down, reach, window)
            held = held[size:]
    left = len(held) - reach  # samples that nobody has turned yet
    if begun and left > 0:
        rest = turned(np.concatenate([held, np.zeros(reach + down, np.float32)]), up, down, reach, window)
        yield rest[: -(-left * up // down)]


def turned(some: np.ndarray, up: int, down: int, reach: int, window: np.ndarray) -> np.ndarray:
    """What lies between the edges, at the other rate."""
    from scipy.signal import resample_poly

    whole = resample_poly(some, up, down, window=window).astype(np.float32)
    first = reach * up // down
    return whole[first : first + (len(some) - 2 * reach) * up // down]


@lru_cache(8)
def phases(rate: int, to: int) -> tuple[int, int, int, np.ndarray]:
    """By what to raise and to lower the rate, how many samples the filter reaches to either side (a multiple of what it
    is lowered by), and the filter."""
    from scipy.signal import firwin

    common = math.gcd(rate, to)
    up, down = to // common, rate // common
    half = 10 * max(up, down)
    reach = -(-(half // up + 1) // down) * down
    return up, down, reach, firwin(2 * half + 1, 1 / max(up, down), window=("kaiser", 5.0)).astype(np.float32)
