"""Whether kernels written in Triton can run: torch brings it where there are GPUs."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

FOUND = find_spec("triton") is not None
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own way to run a kernel without a GPU, for tests
OLDEST = (8, 0)  # devices that know bf16


def kernels_run(x: Tensor) -> bool:
    """On tensors that lie where this one does."""
    return FOUND and (x.is_cuda or INTERPRETED)


@cache
def try_kernels(device: torch.device) -> None:
    """Do without them from now on if they cannot be built for a GPU: that takes a C compiler, which not all have."""
    global FOUND
    if not FOUND or device.type != "cuda":
        return
    from regard.attention.one_query_kernel import touch

    try:
        touch[(1,)](torch.zeros(1, device=device))
        FOUND = torch.cuda.get_device_capability(device) >= OLDEST
    except Exception as error:  # whatever a compiler, or the lack of one, may say
        FOUND = False
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"writing is slower than it could be: Triton cannot build kernels here ({reason})", stacklevel=2)


def power_of_two(number: int) -> int:
    """The first that is not below it: Triton's blocks have such sizes."""
    return 1 << max(number - 1, 0).bit_length()
