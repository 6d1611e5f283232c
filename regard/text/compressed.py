"""Gzip and xz files as streams that refuse a decompression bomb: a small file that unfolds to an enormous one."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, BinaryIO, cast

from regard.errors import Problem

MAX_EXPANSION = 150  # bytes that one compressed byte may become: text reaches 10, logs and tables 100, newlines 200 up
FREE_BYTES = 4 * 2**20  # that any file may unfold to, for small repetitive files are harmless
CHUNK_BYTES = 16 * 2**10  # of compressed input at once, so that a bomb is seen after little of it
DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)  # what the decompressors raise


def open_compressed(path: str | Path) -> io.BufferedReader:
    """The bytes of a file, decompressed if its name ends in .gz, .tgz or .xz; a decompression bomb is a Problem."""
    match Path(path).suffix.lower():
        case ".gz" | ".tgz":
            return decompressed(open(path, "rb"), "gzip", str(path))
        case ".xz":
            return decompressed(open(path, "rb"), "xz", str(path))
    return open(path, "rb")


def decompressed(file: BinaryIO, form: str, name: str) -> io.BufferedReader:
    """The decompressed bytes of an open file, which is closed with the stream."""
    counted = CountedInput(file)
    stream = gzip.open(counted) if form == "gzip" else lzma.open(cast(IO[bytes], counted))  # noqa: SIM115 closed with it
    return io.BufferedReader(BoundedExpansion(cast(BinaryIO, stream), counted, name))


def check_expansion(size: int, stored: int, name: str) -> None:
    """Refuse data of `size` bytes that were stored in so few."""
    if size > max(FREE_BYTES, MAX_EXPANSION * stored):
        raise Problem(
            f"{name} unfolds to more than {size:,} bytes, {size // max(stored, 1):,} times what is stored: such files "
            "are made to fill a machine's memory. If you trust it, decompress it yourself and give the plain file."
        )


class CountedInput(io.RawIOBase):
    """The compressed file, read in small portions that are counted."""

    def __init__(self, file: BinaryIO):
        self.file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        portion = self.file.read(CHUNK_BYTES if size < 0 else min(size, CHUNK_BYTES))
        self.count += len(portion)
        return portion

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.file.close()
        super().close()


class BoundedExpansion(io.RawIOBase):
    """A decompressing stream that refuses to yield far more than was read."""

    def __init__(self, stream: BinaryIO, compressed: CountedInput, name: str):
        self.stream, self.compressed, self.name, self.count = stream, compressed, name, 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self.stream.readinto(buffer)  # type: ignore[attr-defined]
        self.count += count
        check_expansion(self.count, self.compressed.count, self.name)
        return count

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.stream.close()
        self.compressed.close()
        super().close()
