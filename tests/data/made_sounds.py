"""WAV files made for tests, of every kind."""

from __future__ import annotations

import struct

import numpy as np

RATE = 8000
TONE = 0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)  # a second


def header(kind: int, channels: int, rate: int, bits: int, size: int, extra: bytes = b"") -> bytes:
    width = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * width % 2**32, width % 2**16, bits) + extra
    return (
        b"RIFF" + struct.pack("<I", (36 + size) % 2**32) + b"WAVE" + b"LIST\x03\x00\x00\x00abc\x00"  # of odd length
        + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    )  # fmt: skip


def written(samples: np.ndarray, bits: int, *, kind: int = 1, channels: int = 1, rate: int = RATE) -> bytes:
    """A WAV file of samples from -1 to 1, interleaved."""
    if kind == 3:
        data = samples.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        data = np.round(samples * 127 + 128).astype(np.uint8).tobytes()
    else:
        whole = np.round(samples * (2 ** (bits - 1) - 1)).astype("<i4")
        data = whole.view(np.uint8).reshape(-1, 4)[:, : bits // 8].tobytes()
    return header(kind, channels, rate, bits, len(data)) + data
