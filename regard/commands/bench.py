"""bench: regard beside its peers, on this machine.  Benchmarks lie in the repository beside the package, and run in a
process of their own, for they import the peers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import regard
from regard.config import did_you_mean
from regard.errors import Problem, UsageProblem

BENCHMARKS = ("all", "embed", "finetune", "generate", "memory", "scaling", "tokenize", "train", "translate")
ROOT = Path(regard.__file__).parent.parent


def bench(name: str, options: Sequence[str] = (), root: Path = ROOT) -> int:
    """Run a benchmark with its own options; its exit code."""
    if name not in BENCHMARKS:
        raise UsageProblem(f"no benchmark is called {name!r}; {did_you_mean(name, BENCHMARKS)}")
    if not (root / "benchmarks" / f"{name}.py").is_file():
        raise Problem(
            f"{root} holds no benchmarks: they are in regard's repository, not in the installed package. "
            "Clone it and run `regard bench` from there."
        )
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode
