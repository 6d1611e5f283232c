"""Where pictures with labels come from: a folder of classes, a table of paths, MNIST's IDX files, an archive."""

from __future__ import annotations

import hashlib
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.images import LIMIT, SUFFIXES, Gallery, decoded, files_below, read_picture
from regard.data.lines import fingerprint
from regard.data.reading import Reading
from regard.data.table import Table, read_table
from regard.errors import Problem
from regard.text.compressed import open_compressed

READING = Reading()
PATHS = "path file filename file_name image image_path img picture"
LABELS = "label class category target labels"
PICTURES, NUMBERS = 0x0803, 0x0801  # what an IDX file begins with
ARCHIVE = re.compile(r".*\.(tar|tar\.gz|tgz|tar\.xz)", re.IGNORECASE)
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, struct.error)
LARGEST = 2**31  # bytes that an IDX file may unfold to
FEW = 3  # examples of what was found in vain


def read_gallery(path: str | Path, reading: Reading = READING, *, labelled: bool = True) -> Gallery:
    """The pictures of a path: a folder with a folder for each class; a table with columns of paths and labels; an IDX
    file, whose labels lie beside it; or an archive of folders, or a folder in one, as ARCHIVE.tar/train."""
    path = Path(path)
    if path.is_dir():
        found = of_folder(path)
    elif (archive := next((one for one in (path, *path.parents) if one.is_file()), None)) is None:
        raise Problem(f"{path}: there is no such file or folder; give a folder of classes, a table or an IDX file")
    elif ARCHIVE.fullmatch(archive.name):
        found = of_archive(archive, path.relative_to(archive).as_posix())
    else:
        found = of_idx(path) if is_idx(path) else of_table(path, reading)
    if labelled and (without := [name for name, label in zip(found.names, found.labels, strict=True) if not label]):
        raise Problem(f"{without[0]} has no label: put pictures into a folder that is named as their class")
    return found


def of_folder(folder: Path) -> Gallery:
    """The label of a picture is the folder in the given one that holds it."""
    paths = list(files_below(folder))
    if not paths:
        raise Problem(f"{folder} holds no pictures ({', '.join(SUFFIXES)}); give a folder with a folder for each class")
    labels = [top(path.relative_to(folder)) for path in paths]
    empty = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name not in labels)
    notes = [f"{folder}: no pictures in {', '.join(empty[:FEW])}"] if empty and any(labels) else []
    return Gallery(str(folder), [str(path) for path in paths], labels, read_from(paths), stamp(paths, folder), notes)


def top(path: PurePosixPath | Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def read_from(paths: list[Path]):
    return lambda number: read_picture(paths[number])


def stamp(paths: Iterable[Path], root: Path) -> str:
    """Names and sizes: contents of a million pictures would take long to hash at every start."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(f"{path.relative_to(root) if path.is_relative_to(root) else path.name}".encode())
            digest.update(str(path.stat().st_size).encode())
        except OSError as error:
            raise Problem(f"{path} cannot be read ({error.strerror}). Check the path.") from error
    return digest.hexdigest()


def of_table(path: Path, reading: Reading) -> Gallery:
    """Paths in a table begin beside it."""
    table = read_table(path, reading.encoding, header=reading.header, skip_bad=reading.skip_bad)
    if reading.header is None and any(name.lower().endswith(SUFFIXES) for name in table.names):
        table = read_table(path, reading.encoding, header=False, skip_bad=reading.skip_bad)  # a path is no name
    where, what = column(table, reading.text, PATHS, "path", 0), column(table, reading.label, LABELS, "label", 1)
    cells = [row[where].strip() for row in table.rows]
    for number, cell in enumerate(cells):
        if not cell or not (path.parent / cell).is_file():
            raise Problem(f"{table.place(number)}: there is no picture {str(path.parent / cell)!r}; mend the path")
    paths = [path.parent / cell for cell in cells]
    labels = [row[what].strip() for row in table.rows]
    for number, label in enumerate(labels):
        if not label:
            raise Problem(f"{table.place(number)}: the label, in column {table.names[what]!r}, is blank")
    return Gallery(
        str(path),
        [str(one) for one in paths],
        labels,
        read_from(paths),
        fingerprint([path]) + stamp(paths, path.parent),
    )


def column(table: Table, said: str | None, likely: str, role: str, otherwise: int) -> int:
    """Which column holds what: as was said, by its name, or where columns have none, the first or the second."""
    names = [name.lower() for name in table.names]
    wanted = [said.lower()] if said else likely.split()
    found = next((names.index(name) for name in wanted if name in names), None)
    if said and said.isdecimal() and found is None and 1 <= int(said) <= len(names):
        found = int(said) - 1
    if found is None and not table.named and not said and otherwise < len(names):
        found = otherwise
    if found is None:
        option = "text" if role == "path" else role
        raise Problem(
            f"{table.source}: no column looks like the {role}; there are: {', '.join(table.names)}. Say which it is "
            f"(--{option})"
        )
    return found


def is_idx(path: Path) -> bool:
    try:
        return contents(path, 4)[:2] == b"\0\0"
    except DAMAGED:
        return False


def of_idx(path: Path) -> Gallery:
    """MNIST's form: a file of pictures, and one of labels beside it, called so in the same place of its name."""
    pictures = idx(path, PICTURES, 3)
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == path or not beside.is_file():
        raise Problem(f"{beside if beside != path else path}: the labels of {path} should lie beside it, in idx1 form")
    labels = idx(beside, NUMBERS, 1)
    if len(labels) != len(pictures):
        raise Problem(f"{path} has {len(pictures):,} pictures and {beside} {len(labels):,} labels: fetch both again")
    names = [f"{path}, picture {number}" for number in range(1, len(pictures) + 1)]
    kinds = [str(label) for label in labels.tolist()]
    return Gallery(str(path), names, kinds, lambda n: pictures[n][..., None], fingerprint([path, beside]))


def idx(path: Path, kind: int, dimensions: int) -> np.ndarray:
    """The array of an IDX file: four bytes that tell its kind, four for each of its sizes, and bytes."""
    try:
        content = contents(path, LARGEST)
        (found,) = struct.unpack_from(">I", content)
        if found != kind:
            raise Problem(f"{path} begins with {found:#x} and not with {kind:#x}: it is no IDX file of this kind")
        sizes = struct.unpack_from(f">{dimensions}I", content, 4)
    except DAMAGED as error:
        raise Problem(f"{path} is damaged or incomplete ({error}). Fetch it again.") from error
    head, count = 4 * (1 + dimensions), int(np.prod(sizes, dtype=object))
    if len(content) - head != count:
        raise Problem(f"{path} should hold {count:,} bytes and holds {len(content) - head:,}. Fetch it again.")
    return np.frombuffer(content, np.uint8, offset=head).reshape(sizes)


def contents(path: Path, most: int) -> bytes:
    with open_compressed(path) as file:
        return file.read(most)


def of_archive(path: Path, inside: str) -> Gallery:
    """Pictures of an archive, or of a folder in it; held as the bytes they were stored as.  Nothing is unpacked, so
    names in it lead nowhere."""
    names, labels, files = [], [], []
    try:
        with open_compressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                if inside != "." and not place.is_relative_to(inside):
                    continue
                if member.isfile() and place.suffix.lower() in SUFFIXES and member.size < LIMIT:
                    content = archive.extractfile(member)
                    files.append(content.read() if content else b"")
                    names.append(f"{path}/{place}")
                    labels.append(top(place if inside == "." else place.relative_to(inside)))
    except DAMAGED as error:
        raise Problem(f"{path} is damaged or incomplete ({error}). Fetch it again.") from error
    if not names:
        raise Problem(f"{path} holds no pictures in {inside!r}; give a folder in it, such as {path}/train")
    order = sorted(range(len(names)), key=names.__getitem__)

    def read(number: int) -> np.ndarray:
        return decoded(files[order[number]], names[order[number]])

    source = str(path if inside == "." else path / inside)
    names_in_order, kinds = [names[n] for n in order], [labels[n] for n in order]
    return Gallery(source, names_in_order, kinds, read, f"{fingerprint([path])} {inside}")
