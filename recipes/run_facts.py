"""What a result says of the run it is from: the command, the commit, the device; and where the data lies."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from regard.errors import Problem
from regard.training.parallel import here


def data_folder() -> Path:
    if "REGARD_DATA" not in os.environ:
        raise Problem("set REGARD_DATA to the folder that holds the data sets, multi30k and its like")
    return Path(os.environ["REGARD_DATA"])


def command(options: Any) -> str:
    """What to type to have the same again: where files lie does not matter."""
    module = sys.modules["__main__"].__spec__
    told = {name: value for name, value in vars(options).items() if name not in ("out", "results")}
    if "model" in told:
        told["model"] = "FOLDER"
    words = [word for name, value in told.items() for word in (f"--{name}", shlex.quote(str(value)))]
    return " ".join(["python -m", module.name if module else sys.argv[0], *words])


def commit() -> str:
    if "REGARD_COMMIT" in os.environ:  # where the code runs without its history
        return os.environ["REGARD_COMMIT"]
    return subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()


def device_name() -> str:
    import torch

    return torch.cuda.get_device_name() if here().type == "cuda" else "CPU"
