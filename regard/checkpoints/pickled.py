"""Pickled weights (.bin, .pt, .pth, .ckpt), whose reading can run whatever code their author chose.

So they are read in a process of its own, as weights only and with little else allowed; safetensors is what comes back.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from regard.checkpoints.files import load_tensors
from regard.errors import Problem

WRAPPERS = ("state_dict", "model_state_dict", "model", "module")  # where training scripts put the weights
KEPT = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # of the environment: without these torch may not start
REFUSED = ("os.", "subprocess.", "socket.", "shutil.", "pickle.", "ctypes.dlopen")  # audit events
IMPORTING = "os.listdir"  # which torch does a little of while it reads
SLACK = 2**28  # bytes that a file may need beyond what its size explains
TORCH = 2**34  # bytes of address space for torch itself, with all of its CUDA libraries


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; one that has several names by its first alone, which a warning tells."""
    if not path.is_file():
        raise Problem(f"{path}: there is no such file")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out = Path(folder, "weights.safetensors")
        for notice in read_apart(path, out):
            warnings.warn(f"{path}: {notice}", stacklevel=2)
        return load_tensors(out)


def read_apart(path: Path, out: Path) -> list[str]:
    """Let another process write the weights to `out`; what it has to tell about them."""
    # isolated (-I), it would not find a regard or a torch that PYTHONPATH or the user's own folder provides
    found = [os.path.abspath(folder) for folder in sys.path]
    code = f"import sys; sys.path = {found!r}; from regard.checkpoints.pickled import main; main()"
    options = ["-I", "-B", "-c", code]  # -B, for it may write nothing of its own, not even what it imported
    environment = {name: os.environ[name] for name in KEPT if name in os.environ} | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *options, str(path.resolve()), str(out)],
            cwd=out.parent, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds(path),
        )  # fmt: skip
    except subprocess.TimeoutExpired as expired:
        raise unreadable(path, f"it was not read within {expired.timeout:.0f} seconds") from None
    if done.returncode < 0:
        raise unreadable(path, f"it needs more memory or time than there is (signal {-done.returncode})")
    if done.returncode:
        raise unreadable(path, (printable(done.stderr) or ["nothing is known"])[-1])
    return printable(done.stdout)


def unreadable(path: Path, why: str) -> Problem:
    return Problem(f"{path} cannot be read as weights: {why}. Fetch it again, or ask its author for safetensors.")


def printable(told: bytes) -> list[str]:
    """Lines without what would steer a terminal: names are the author's choice too."""
    lines = told.decode(errors="replace").splitlines()
    return ["".join(letter for letter in line if letter.isprintable()) for line in lines]


def seconds(path: Path) -> int:
    return 120 + path.stat().st_size // 2**24


def room(path: Path) -> int:
    """The most bytes that the tensors of a file may have.  They lie in it uncompressed, a few of them perhaps as views
    of another, so a file that asks for much more was made to fill the memory."""
    return 4 * path.stat().st_size + SLACK


# What follows runs in the process of its own.


def main() -> None:
    source, out = map(Path, sys.argv[1:])
    confine(source)
    try:
        for notice in extract(source, out):
            print(notice)
    except Exception as error:
        sys.exit(reason(error))


def confine(source: Path) -> None:
    """A second wall, lest there is a hole in torch's: limits on what is used, and no way to other programs or files."""
    with suppress(ImportError):  # there is none on Windows
        import resource

        wanted = {
            resource.RLIMIT_AS: TORCH + 3 * room(source),  # as read, as copied, as written
            resource.RLIMIT_FSIZE: 2 * room(source),
            resource.RLIMIT_CPU: seconds(source),
            resource.RLIMIT_CORE: 0,
        }
        for kind, most in wanted.items():
            with suppress(ValueError):  # a lower limit holds already
                resource.setrlimit(kind, (most, most))
    sys.addaudithook(refuse)


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    writing = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if writing or (event.startswith(REFUSED) and event != IMPORTING):
        raise Problem(f"it attempts {event}, which weights do not need")


def extract(source: Path, out: Path) -> list[str]:
    """Write the weights of a file as safetensors; what is worth telling about them."""
    check_archive(source)
    tensors, others = weights_in(torch.load(source, weights_only=True, map_location="cpu"))
    ties = ties_of(tensors)
    single = {name: tensor for name, tensor in tensors.items() if name not in ties}
    needed = sum(tensor.nbytes for tensor in single.values())
    if needed > room(source):
        raise Problem(f"its tensors would take {needed:,} bytes, and the file has {source.stat().st_size:,}")
    own = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in single.items()}
    safetensors.torch.save_file(own, out)
    notices = [f"{second} is {first} again, and was left out" for second, first in ties.items()]
    return notices + [f"entries that are no weights and were left out: {others}"] * bool(others)


def check_archive(source: Path) -> None:
    """torch.save does not compress, so an archive that unpacks to more than itself is none of its making."""
    with open(source, "rb") as file:
        if file.read(4) != b"PK\3\4":
            return  # what torch wrote before version 1.6
        unpacked = sum(entry.file_size for entry in zipfile.ZipFile(file).infolist())
    if unpacked > source.stat().st_size:
        raise Problem(f"it would unpack to {unpacked:,} bytes, and the file has {source.stat().st_size:,}")


def weights_in(found: Any) -> tuple[dict[str, Tensor], int]:
    """Tensors by name, those under the first of WRAPPERS if there is one; and how many other entries lay beside."""
    if not isinstance(found, dict):
        raise Problem(f"it holds a {type(found).__name__} instead of tensors by name")
    for wrapper in WRAPPERS:
        if isinstance(found.get(wrapper), dict):
            tensors, others = weights_in(found[wrapper])
            return tensors, others + len(found) - 1
    tensors = {name: value for name, value in found.items() if isinstance(name, str) and isinstance(value, Tensor)}
    if not tensors:
        raise Problem(f"there are no tensors, but {', '.join(map(repr, list(found)[:8])) or 'nothing'}")
    return tensors, len(found) - len(tensors)


def ties_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The second names of tensors that are one and the same, and their first."""
    first: dict[tuple[Any, ...], str] = {}
    owners = {
        name: first.setdefault((tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()), name)
        for name, tensor in tensors.items()
        if tensor.layout is torch.strided and tensor.numel()
    }
    return {name: owner for name, owner in owners.items() if name != owner}


def reason(error: Exception) -> str:
    """In a line, and without torch's advice to trust the file."""
    text = str(error)
    if isinstance(error, Problem):
        return text
    if asked := re.search(r"GLOBAL (\S+)", text):
        return f"it asks for {asked[1]}, which weights do not need"
    told = (text.partition("WeightsUnpickler error:")[2] or text).strip()
    sentence = re.split(r"\n|\. ", told)[0]
    return f"reading ended with {type(error).__name__}: {sentence}".strip(" .:")
