"""What every contender of a benchmark is given; each of them gets all of it, and reads what concerns it."""

from __future__ import annotations

from dataclasses import dataclass

from regard.training.settings import Launch


@dataclass(frozen=True)
class Plan:
    model: str  # the folder that all of them load
    examples: str  # the file that all of them read
    device: str
    threads: int  # of the CPU
    batch: int
    steps: int  # of a stretch, which is what is timed
    stretches: int  # the first of which is the warm-up
    seed: int = 0
    rate: float = 2e-5
    launch: Launch = "graphs"  # of regard
    attention_dropout: float = 0.0
    beams: int = 1  # of what is written; 1: greedy
    most: int = 64  # tokens that are written after each prompt
    objective: str = "masked"  # of pretraining; or "next"
    longest: int = 512  # tokens of a row, in pretraining,
    budget: int = 0  # and of a step
    grouped: bool = False  # rows of about one length are put together, by a peer that pads
    seconds: float = 0.0  # of a stretch that is not a number of steps

    @property
    def all_steps(self) -> int:
        return self.steps * self.stretches

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")
