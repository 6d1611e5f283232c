"""Those who fine-tune, watched for the memory they hold: on a CPU what the system counts, on a GPU what torch does."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import Stretch, Turns, Work
from benchmarks.plan import Plan

STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"  # what proc(5) says to write, for the peak to begin anew


@dataclass(frozen=True)
class Held(Stretch):
    before: int  # bytes held as training begins: all that was imported, weights and texts
    peak: int  # the most bytes held in the stretch


class Watched(Turns):
    """Tells with every stretch the memory that it took."""

    before = 0

    def begin(self) -> None:
        super().begin()
        self.before = self.before or held(self.on_gpu)
        forget(self.on_gpu)

    def end(self, tokens: int) -> None:
        self.pipe.send(Held(self.now() - self.start, tokens, self.before, peak(self.on_gpu)))


def held(on_gpu: bool) -> int:
    if on_gpu:
        import torch

        return torch.cuda.memory_allocated()
    return counted("VmRSS") or peak(on_gpu)


def peak(on_gpu: bool) -> int:
    if on_gpu:
        import torch

        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return counted("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def counted(name: str) -> int:
    """Bytes, as Linux counts them; 0 elsewhere."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def forget(on_gpu: bool) -> None:
    """Let the peak begin anew.  Where that cannot be had, it is that of the process."""
    if on_gpu:
        import torch

        torch.cuda.reset_peak_memory_stats()
    elif FORGET.exists():
        FORGET.write_text(FORGET_PEAK)


def ours(plan: Plan, turns: Turns) -> None:
    from benchmarks.ours import finetune

    finetune(plan, Watched(turns.pipe, turns.on_gpu))


def trainer(plan: Plan, turns: Turns) -> None:
    from benchmarks.trainer import finetune

    finetune(plan, Watched(turns.pipe, turns.on_gpu))


CONTENDERS: dict[str, Work] = {"regard": ours, "transformers": trainer}
