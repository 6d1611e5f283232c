"""Tensors of HDF5 files, as TensorFlow and Keras programs write them: data alone, and nothing of another file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import Problem


def read_hdf5(path: Path) -> dict[str, Tensor]:
    """The arrays of a file by their paths in it; links are not followed."""
    try:
        import h5py
    except ImportError:
        raise Problem(f"{path} is HDF5, which needs h5py: pip install 'regard[elmo]'") from None
    arrays: dict[str, Any] = {}
    try:
        with h5py.File(path, "r") as file:
            file.visititems(lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None)
            return {name: tensor_of(item, f"{path}: {name}", path.stat().st_size) for name, item in arrays.items()}
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} cannot be read as HDF5 ({error}). Fetch it again.") from None


def tensor_of(item: Any, name: str, size: int) -> Tensor:
    if item.is_virtual or item.external:
        raise Problem(f"{name} takes its numbers from another file, which is not read")
    if item.dtype.kind != "f" or not item.shape:
        raise Problem(f"{name} holds {item.dtype} of shape {item.shape}, which are no weights")
    if item.nbytes > size:  # before memory is taken for it
        raise Problem(f"{name} claims {item.nbytes:,} bytes in a file of {size:,}: it is damaged, or compressed")
    return torch.from_numpy(item[...]).float()
