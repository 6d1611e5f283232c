"""What of a model's folder goes into a converted one: all that is data, and by name what is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from regard.errors import Problem

DATA = (".json", ".txt", ".model", ".spm", ".vocab", ".bpe", ".tsv", ".md", ".rst")
DATA_NAMES = ("license", "licence", "notice", "copying", "readme")  # with no ending, or with any
CODE = (".py", ".pyc", ".ipynb", ".sh", ".js", ".jinja", ".so", ".dll", ".cpp", ".cu")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".npy", ".npz", ".joblib")
FOREIGN = (".h5", ".hdf5", ".msgpack", ".onnx", ".onnx_data", ".ot", ".pb", ".tflite", ".gguf", ".mlmodel", ".xml")
INDEXES = (".bin.index.json", ".safetensors.index.json", ".h5.index.json", ".msgpack.index.json")
WRITTEN_ANEW = ("manifest.json",)
LARGEST = 64 * 2**20  # bytes of a file that is copied
MAX_DEPTH = 4  # of sub-folders within sub-folders


def files_beneath(folder: Path, depth: int = 0) -> Iterator[Path]:
    """The files of a folder and of its sub-folders, but for hidden ones; links to folders are not followed."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            if depth < MAX_DEPTH:
                yield from files_beneath(path, depth + 1)
        else:
            yield path


def split_files(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The files that are data, by their names in the folder; and those that are left out, with the reason."""
    data, left_out = {}, {}
    for path in files_beneath(folder):
        name = path.relative_to(folder).as_posix()
        if reason := why_left_out(path, folder):
            left_out[name] = reason
        elif not is_written_anew(path):
            data[name] = path
    return data, left_out


def is_written_anew(path: Path) -> bool:
    return path.name.endswith(INDEXES) or path.name in WRITTEN_ANEW


def why_left_out(path: Path, folder: Path) -> str | None:
    """The reason why a file is not copied as it is; None where it is."""
    if leads_out(path, folder):
        return "a link out of the folder"
    if path.is_dir():
        return "a link to a folder"
    if not path.is_file():
        return "no regular file"
    kinds = {"code": CODE, "a pickle": PICKLED, "weights of another framework": FOREIGN}
    kinds["weights that were not read"] = (".safetensors",)
    for kind, endings in kinds.items():
        if path.suffix.lower() in endings:
            return kind
    if path.suffix.lower() not in DATA and path.name.lower().split(".")[0] not in DATA_NAMES:
        return "not known to be data"
    size = path.stat().st_size
    return f"{size:,} bytes, over the {LARGEST:,} of a file that is copied" if size > LARGEST else None


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a file is a link out of the folder; the hub's cache links to its own blobs, beside its snapshots."""
    root = folder.resolve()
    roots = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
    return not any(path.resolve().is_relative_to(one) for one in roots)


def check_regular(path: Path, folder: Path) -> Path:
    """The path of weights, if it is a regular file of the folder."""
    if leads_out(path, folder) or not stat.S_ISREG(os.stat(path).st_mode):
        raise Problem(f"{path} is no regular file of {folder}. Fetch it again.")
    return path
