"""Recordings and what is said in them: tables of paths and texts, folders and archives; and all of their samples in one
file that is mapped into memory."""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.files import check_entries, file_entries, read_checked_json, write_checked_json
from regard.data.lines import read_lines
from regard.data.reading import Reading
from regard.data.sounds import Source, stream_sound
from regard.data.split import ExampleKey, label_strata
from regard.data.table import BadRows, Table, read_table
from regard.errors import Problem
from regard.text.compressed import open_compressed

SOUNDS = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz")
PATHS = ("path", "file", "filename", "audio", "wav", "sound", "recording", "audio_filepath")
TEXTS = ("text", "transcript", "transcription", "sentence", "label")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPOKEN = "trans.txt"  # LibriSpeech's: the name of a recording and what is said in it, a line each
LOUDEST = 32767
FACTS, SAMPLES = "sounds.json", "samples.int16"  # what a folder of decoded recordings holds
READING = Reading()


@dataclass(frozen=True)
class Recording:
    name: str
    source: Source
    text: str | None = None  # None: nobody wrote down what is said


@dataclass(frozen=True)
class Recordings:
    """What a file or folder names; `source` is where."""

    source: str
    every: list[Recording]
    missing: int = 0  # rows of a table left out, since there is no such file

    def __len__(self) -> int:
        return len(self.every)

    @property
    def texts(self) -> list[str]:
        return [one.text or "" for one in self.every]

    def lines(self) -> list[str]:
        said = sum(one.text is not None for one in self.every)
        left_out = f"; left out: {self.missing:,} whose file is missing" if self.missing else ""
        return [f"{self.source}: {len(self):,} recordings, {said:,} with what is said in them{left_out}"]

    def take(self, numbers: Sequence[int], source: str) -> Recordings:
        """The chosen recordings, in that order."""
        return replace(self, source=source, every=[self.every[number] for number in numbers])

    def example_keys(self) -> list[ExampleKey]:
        """A recording is known by its file: the same words may be said in many."""
        return [
            ExampleKey(one.name, text, stratum, tuple(text))
            for one, text, stratum in zip(self.every, self.texts, label_strata(self.texts), strict=True)
        ]

    def spoken(self) -> Recordings:
        """The same, if it is told of each what is said."""
        for one in self.every:
            if not (one.text or "").strip():
                raise Problem(f"{self.source}: what is said in {one.name} is not told; write it down, or leave it out")
        return self


def read_recordings(path: str | Path, reading: Reading = READING) -> Recordings:
    """The recordings of a folder (texts in .txt files beside them, or LibriSpeech's), of an archive (likewise, or
    spoken digits called DIGIT_SPEAKER_NUMBER.wav), of a table with a column of paths, or one recording."""
    place, missing = Path(path), 0
    if place.is_dir():
        found = in_folder(place)
    elif str(place).lower().endswith(ARCHIVES):
        found = in_archive(place)
    elif place.suffix.lower() in SOUNDS:
        found = [Recording(str(place), place)]
    else:
        found, missing = in_table(place, reading)
    if not found:
        raise Problem(f"{path} names no recordings ({', '.join(SOUNDS)}). Check the path.")
    return Recordings(str(path), found, missing)


def in_folder(folder: Path) -> list[Recording]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SOUNDS)
    said = {
        path.parent / name: text
        for path in folder.rglob(f"*{SPOKEN}")
        for name, _, text in (line.partition(" ") for line in read_lines(path))
    }
    return [Recording(str(path), path, said.get(path.with_suffix("")) or text_beside(path)) for path in files]


def text_beside(path: Path) -> str | None:
    beside = path.with_suffix(".txt")
    return " ".join(read_lines(beside)).strip() if beside.is_file() else digit_of(path.name)


def digit_of(name: str) -> str | None:
    """The digit that is spoken, where names are those of the Free Spoken Digit Dataset."""
    digit, *others = Path(name).stem.split("_")
    known = len(digit) == 1 and digit.isdecimal() and len(others) == 2 and others[1].isdecimal()
    return DIGITS[int(digit)] if known else None


def in_archive(path: Path) -> list[Recording]:
    try:
        with open_compressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            parts = ((entry.name, archive.extractfile(entry)) for entry in archive if wanted(entry))
            files = {name: part.read() for name, part in parts if part is not None}
    except (OSError, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise Problem(f"{path} cannot be read as an archive ({error}). Fetch it again.") from error
    found = []
    for name, content in sorted(files.items()):
        if name.lower().endswith(SOUNDS):
            beside = files.get(str(Path(name).with_suffix(".txt")))
            found.append(Recording(name, content, digit_of(name) if beside is None else beside.decode().strip()))
    return found


def wanted(entry: tarfile.TarInfo) -> bool:
    return entry.isfile() and entry.name.lower().endswith((*SOUNDS, ".txt")) and entry.size < 2**31


def in_table(path: Path, reading: Reading) -> tuple[list[Recording], int]:
    """The recordings that a table names, and how many of its rows were left out."""
    table = read_table(path, reading.encoding, header=reading.header, skip_bad=reading.skip_bad)
    if reading.header is None and any(name.lower().endswith(SOUNDS) for name in table.names):  # no names, but a row
        return in_table(path, replace(reading, header=False))
    paths = column(table, reading.second, PATHS) if table.named or reading.second else 0
    others = [number for number in range(len(table.names)) if number != paths]
    text = column(table, reading.text, TEXTS) if table.named or reading.text else (others[0] if others else None)
    if paths is None:
        raise Problem(f"{path} has no column of paths (one called {', '.join(PATHS)}); name it: --second COLUMN")
    bad, found = BadRows(reading.skip_bad, table.skipped), list[Recording]()
    for number, row in enumerate(table.rows):
        place = path.parent / row[paths]  # one that is absolute stays so
        if place.is_file():
            found.append(Recording(str(place), place, row[text] if text is not None and text != paths else None))
        else:
            bad.add(f"{table.place(number)}: there is no file {place}. Paths are told from where the table lies.")
    return found, bad.count


def column(table: Table, asked: str | None, known: Sequence[str]) -> int | None:
    """The number of a column: what was asked for, by name or by number from 1, or the first that is known."""
    names = [name.lower() for name in table.names]
    if asked is None:
        return next((names.index(name) for name in known if name in names), None)
    if asked.lower() in names:
        return names.index(asked.lower())
    if asked.isdecimal() and 1 <= int(asked) <= len(names):
        return int(asked) - 1
    raise Problem(f"{table.source} has no column {asked!r}; it has {', '.join(table.names)}")


@dataclass(frozen=True, eq=False)
class SoundCorpus:
    """Recordings end to end, as 16-bit samples that are mapped into memory, and where each begins."""

    samples: np.ndarray  # (all,) int16
    offsets: np.ndarray  # (recordings + 1,)
    names: list[str]
    texts: list[str | None]
    rate: int
    fingerprint: str

    @classmethod
    def make(cls, recordings: Iterable[Recordings], rate: int, folder: Path) -> SoundCorpus:
        """Decode recordings once.  What is there already and is of the same recordings is taken."""
        every = [one for some in recordings for one in some.every]
        mark = fingerprint_of(every, rate)
        if not is_decoded(folder, mark):
            told: dict[str, Any] = {"rate": rate, "fingerprint": mark, "names": [one.name for one in every]}
            told |= {
                "texts": [one.text for one in every],
                "lengths": write_samples(folder / SAMPLES, every, rate),
            }
            write_checked_json(folder / FACTS, {**told, "files": file_entries(folder, [SAMPLES])})
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> SoundCorpus:
        told = read_checked_json(folder / FACTS)
        offsets = np.concatenate([[0], np.cumsum(told["lengths"], dtype=np.int64)])
        samples = np.memmap(folder / SAMPLES, np.int16, "r", shape=(int(offsets[-1]),))
        return cls(samples, offsets, told["names"], told["texts"], told["rate"], told["fingerprint"])

    def __len__(self) -> int:
        return len(self.names)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def wave(self, number: int, begin: int = 0, end: int | None = None) -> np.ndarray:  # (samples,) float32
        first, last = self.offsets[number], self.offsets[number + 1]
        return self.samples[first + begin : last if end is None else first + end].astype(np.float32) / LOUDEST

    def lines(self) -> list[str]:
        seconds = self.offsets[-1] / self.rate
        return [f"{len(self):,} recordings, {seconds / 60:,.1f} minutes at {self.rate:,} samples a second"]


def is_decoded(folder: Path, mark: str) -> bool:
    """Whether these recordings were decoded before, and lie there as they were written; damage is said."""
    if not (folder / FACTS).exists():
        return False
    try:
        said = read_checked_json(folder / FACTS)
        if said["fingerprint"] == mark:
            check_entries(folder, said["files"])
        return said["fingerprint"] == mark
    except Problem as problem:
        print(f"{problem} The recordings are decoded anew.", file=sys.stderr)
        return False


def write_samples(path: Path, every: Sequence[Recording], rate: int) -> list[int]:
    """The samples of all recordings, and how many each has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lengths = []
    with open(path.with_suffix(".partial"), "wb") as file:
        for one in every:
            before = file.tell()
            for piece in stream_sound(one.source, rate, one.name):
                file.write((np.clip(piece, -1, 1) * LOUDEST).round().astype("<i2").tobytes())
            lengths.append((file.tell() - before) // 2)
    path.with_suffix(".partial").replace(path)
    return lengths


def fingerprint_of(every: Iterable[Recording], rate: int) -> str:
    """It changes when a recording, its text or the rate does."""
    digest = hashlib.sha256(str(rate).encode())
    for one in every:
        digest.update(json.dumps([Path(one.name).name, one.text]).encode())
        try:
            digest.update(one.source if isinstance(one.source, bytes) else quick(one.source))
        except OSError as error:
            raise Problem(f"{one.name} cannot be read ({error.strerror}). Check the path.") from error
    return digest.hexdigest()


def quick(path: Path) -> bytes:
    """Of a file its size and its first bytes, which hold the header and some sound: hours need not be read twice."""
    with open(path, "rb") as file:
        return str(path.stat().st_size).encode() + file.read(2**16)


def recordings_of(paths: Iterable[str], reading: Reading = READING) -> Iterator[Recordings]:
    return (read_recordings(path, reading) for path in paths)
