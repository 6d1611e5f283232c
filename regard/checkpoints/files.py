"""Files and folders that are either whole or not there.

A folder is written beside its place, with a manifest of sizes and hashes written last, and then renamed into place:
a kill at any instant, or a full disk, leaves what was there before.  Tensors are safetensors, the rest JSON or text.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from regard.errors import Problem
from regard.layers.host_memory import check_memory

DIGEST = "sha256"  # the key of a JSON object under which the hash of all its other keys stands
MANIFEST, WEIGHTS = "manifest.json", "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
PARTIAL = ".partial-"  # in the name of whatever is not in its place yet

Content = bytes | Mapping[str, Tensor]


def write_folder(path: Path, files: Mapping[str, Content]) -> None:
    """Make a folder of these files, whole or not at all; it must not exist yet."""
    if path.exists():
        raise Problem(f"{path} exists already and would be overwritten. Remove it, or choose another folder.")
    partial = _partial(path)
    with explained(path, sum(map(_size, files.values()))):
        try:
            partial.mkdir(parents=True)
            manifest = {name: _write_new(partial / name, content) for name, content in files.items()}
            _write_new(partial / MANIFEST, json.dumps({"files": manifest}, indent=1).encode())
            _sync(partial)
            partial.rename(path)
            _sync(path.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def write_file(path: Path, content: Content) -> None:
    """Write a file, or put another in its place, whole or not at all."""
    partial = _partial(path)
    with explained(path, _size(content)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(partial, content)
            partial.replace(path)
            _sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def check_folder(path: Path) -> None:
    """Raise a Problem that names the first file which is not as it was written."""
    manifest = path / MANIFEST
    try:
        entries = json.loads(manifest.read_bytes())["files"].items()
        expected = {name: (entry["bytes"], entry["sha256"]) for name, entry in entries}
    except FileNotFoundError:
        raise Problem(f"{manifest} is missing: the folder is not there, or was not written by regard.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{manifest} cannot be read ({error}): the folder is damaged.") from None
    for name, (size, digest) in expected.items():
        _check_file(path / name, size, digest)


def check_regular_file(path: Path) -> None:
    """Refuse a device, a FIFO or a socket, or a link to one: reading it may never end."""
    if path.exists() and not path.is_file():
        raise Problem(f"{path} is not a regular file. Fetch the model again, or give another path.")


def check_regular_files(folder: Path) -> None:
    """The same for all that lies in a model's folder, in the folders of its modules too."""
    for path in [*folder.glob("*"), *folder.glob("*/*")]:
        if not path.is_dir():
            check_regular_file(path)


def file_entries(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Of files that were written piece by piece: the size and hash of each, as a manifest has them."""
    found = {}
    for name in names:
        with open(folder / name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}
    return found


def check_entries(folder: Path, entries: Mapping[str, Any]) -> None:
    """Raise a Problem that names the first file which is not as `file_entries` found it."""
    for name, entry in entries.items():
        _check_file(folder / name, entry["bytes"], entry["sha256"])


def write_with_digest(path: Path, content: bytes) -> None:
    """Write a file, and beside it its hash as `sha256sum --check` reads it, which comes first: what a kill leaves
    without a file says nothing."""
    write_file(_digest_file(path), f"{hashlib.sha256(content).hexdigest()}  {path.name}\n".encode())
    write_file(path, content)


def check_digest(path: Path) -> None:
    """Raise a Problem if a file of `write_with_digest` is not as it was written.  One without a hash passes."""
    try:
        written = _digest_file(path).read_bytes()[:64]
    except FileNotFoundError:
        return
    if hashlib.sha256(path.read_bytes()).hexdigest().encode() != written:
        raise Problem(
            f"{path} is damaged: its bytes are not those that were written (sha256 differs from {_digest_file(path)}). "
            "Put it back from a copy, or begin in a new folder."
        )


def _digest_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def write_checked_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object as JSON, with the hash by which `read_checked_json` knows that it is as it was written."""
    write_file(path, json.dumps({**values, DIGEST: _digest(values)}, indent=1).encode())


def read_checked_json(path: Path) -> dict[str, Any]:
    """The object of `write_checked_json`, or a Problem: there is none, or one that is not as it was written."""
    try:
        values = json.loads(path.read_bytes())
        written = values.pop(DIGEST)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}.") from error
    except KeyError:
        raise Problem(f"{path} has no hash: it is damaged, or an earlier version of regard wrote it.") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(f"{path} is damaged: it cannot be read as what was written there ({error}).") from None
    if written != _digest(values):
        raise Problem(f"{path} is damaged: its bytes are not those that were written (sha256 differs).")
    return values


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def load_tensors(path: Path) -> dict[str, Tensor]:
    check_regular_file(path)
    try:
        check_memory(path.stat().st_size, f"{path}", "Take a smaller model, or a machine with more memory.")
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise Problem(f"{path} cannot be read as safetensors ({error}). Fetch or write it again.") from error


def load_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a model's folder, in one file or in several that an index names."""
    if (folder / WEIGHTS).exists():
        return load_tensors(folder / WEIGHTS)
    index = folder / f"{WEIGHTS}.index.json"
    if not index.exists():
        raise Problem(f"{folder} holds no {WEIGHTS}. {_pickled(folder)}")
    try:
        parts = sorted(map(Path, set(json.loads(index.read_bytes())["weight_map"].values())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(f"{index} cannot be read ({error}). Fetch it again.") from None
    tensors: dict[str, Tensor] = {}
    for part in parts:
        if part.name != str(part):
            raise Problem(f"{index} names {str(part)!r}, which is not a file of this folder")
        tensors |= load_tensors(folder / part)
    return tensors


def _pickled(folder: Path) -> str:
    found = next((path.name for end in PICKLES for path in sorted(folder.glob(f"*{end}"))), None)
    if found is None:
        return "Fetch it, or give another folder. What the hub has as a pickle alone: regard convert NAME NEW_FOLDER"
    return f"{found} is a pickle, which may run code when read, so it is not: regard convert {folder} NEW_FOLDER"


def sweep(folder: Path) -> None:
    """Remove what kills have left unfinished in a folder.  Only for one who knows that nobody is writing there."""
    for leftover in folder.glob(f".*{PARTIAL}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder so that a kill on the way leaves no part of it under its name."""
    doomed = _partial(path)
    path.rename(doomed)
    shutil.rmtree(doomed)


def check_room(folder: Path, needed: int) -> None:
    """Make the folder, and raise a Problem now if `needed` bytes cannot be written there later."""
    write_file(folder / "writable", b"")
    (folder / "writable").unlink(missing_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Problem(
            f"{folder}: {needed:,} bytes will be needed for checkpoints and {free:,} are free. "
            "Free some space, or choose a folder on another disk."
        )


@contextmanager
def explained(path: Path, needed: int) -> Iterator[None]:
    """A full or read-only disk, a quota, a limit: said with the path and the bytes needed."""
    try:
        yield
    except OSError as error:
        raise Problem(
            f"{path} could not be written ({needed:,} bytes): {error.strerror}. What was there before is untouched. "
            "Free some space there, or choose a folder on another disk."
        ) from error


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else sum(tensor.nbytes for tensor in content.values())


def _write_new(path: Path, content: Content) -> dict[str, int | str]:
    """Write a file through to the disk; its entry in a manifest."""
    if not isinstance(content, bytes):
        tensors = {name: tensor.detach().contiguous() for name, tensor in content.items()}
        content = safetensors.torch.save(tensors, metadata={"format": "pt"})
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _check_file(path: Path, size: int, digest: str) -> None:
    try:
        with open(path, "rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if actual != size:
                raise Problem(f"{path} is damaged: it has {actual:,} bytes and was written with {size:,}.")
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise Problem(f"{path} is damaged: its bytes are not those that were written (sha256 differs).")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}.") from error


def _sync(folder: Path) -> None:
    """Make a rename durable.  Windows cannot open a folder, and journals renames itself."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
