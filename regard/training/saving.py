"""The checkpoints of a run: saved whole, checked before they are trusted, removed with care."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.checkpoints.files import (
    PARTIAL,
    Content,
    check_folder,
    load_tensors,
    remove_folder,
    sweep,
    write_file,
    write_folder,
)
from regard.checkpoints.weights import set_weights, weights_of
from regard.errors import Problem
from regard.objectives.objective import Asked
from regard.training.resume import FORMAT, Progress, Terms, wait_for

MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
CARRIED = "carried-{}.safetensors"  # of each rank: what goes from this step to the next beside the weights


@dataclass(frozen=True)
class Checkpoints:
    """One folder a saved step.  Their order is that of their steps, whatever the clock says."""

    folder: Path
    say: Callable[[str], None]  # hears of what is wrong and survived

    def at(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def steps(self, until: float = math.inf) -> list[int]:
        names = (re.fullmatch(r"step-(\d+)", path.name) for path in self.folder.glob("step-*"))
        return sorted(int(name[1]) for name in names if name and int(name[1]) <= until)

    def sound(self, step: int) -> bool:
        """Whether a step's files are as they were written; if not, that is said."""
        fault = self.fault(step)
        if fault is not None:
            self.say(f"{fault} It will not be used.")
        return fault is None

    def fault(self, step: int) -> Problem | None:
        """What is wrong with the files of a step, if something is."""
        try:
            check_folder(self.at(step))
        except Problem as problem:
            return problem
        return None

    def save(
        self, asked: Asked, optimizer: torch.optim.Optimizer, progress: Progress, terms: Terms, ranks: int = 1
    ) -> None:
        """Write the checkpoint of a step: on the first rank, once the others have handed in what they carry."""
        state = {"format": FORMAT, "regard": regard.__version__, **asdict(terms), "progress": asdict(progress)}
        files: dict[str, Content] = {
            MODEL: weights_of(asked),
            OPTIMIZER: optimizer_tensors(asked, optimizer),
            STATE: json.dumps(state, indent=1).encode(),
        }
        if carried := asked.objective.carried():
            handed_in = [self.handed_in(progress.step, rank) for rank in range(1, ranks)]
            for place in handed_in:
                wait_for(place)
            parts: list[Content] = [carried, *(place.read_bytes() for place in handed_in)]
            files |= {CARRIED.format(rank): part for rank, part in enumerate(parts)}
        if self.at(progress.step).exists():  # a damaged one: a run that could read it would have gone on from there
            remove_folder(self.at(progress.step))
        write_folder(self.at(progress.step), files)
        for rank in range(1, ranks):
            self.handed_in(progress.step, rank).unlink(missing_ok=True)

    def hand_in(self, asked: Asked, step: int, rank: int) -> None:
        """Let the first rank have what this one carries, so that one manifest covers it all."""
        if carried := asked.objective.carried():
            write_file(self.handed_in(step, rank), carried)

    def handed_in(self, step: int, rank: int) -> Path:
        """Where a rank's part waits until the first has put it into the checkpoint; after a kill it is swept."""
        return self.folder / f".step-{step:08d}-{CARRIED.format(rank)}{PARTIAL}rank"

    def carried(self, step: int, rank: int, count: int) -> dict[str, Tensor]:
        """What one of `count` ranks takes up from a step, although fewer or more may have saved it."""
        places = self.at(step).glob(CARRIED.format("*"))
        return part_of_rank([load_tensors(place) for place in sorted(places, key=rank_in)], rank, count)

    def newest(self) -> int | None:
        """The newest sound step, if any was ever saved."""
        sweep(self.folder)
        steps = self.steps()
        newest = next((step for step in reversed(steps) if self.sound(step)), None)
        if steps and newest is None:
            raise Problem(f"{self.folder}: every checkpoint is damaged. {self.fault(steps[-1])} Train in a new folder.")
        return newest

    def state(self, step: int) -> dict[str, Any]:
        return json.loads((self.at(step) / STATE).read_bytes())

    def restore(self, step: int, asked: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        set_weights(asked, self.weights(step), self.at(step))
        restore_optimizer(asked, optimizer, load_tensors(self.at(step) / OPTIMIZER))
        return Progress(**self.state(step)["progress"])

    def weights(self, step: int) -> dict[str, Tensor]:
        return load_tensors(self.at(step) / MODEL)

    def average(self, steps: list[int]) -> dict[str, Tensor]:
        """The mean of the weights of several steps; what is not a fraction (a counter) is that of the last."""
        saved = [self.weights(step) for step in steps]
        return {name: mean([weights[name] for weights in saved]) for name in saved[-1]}

    def prune(self, steps: list[int], keep: Collection[int | None]) -> None:
        """Remove those of the steps that are not to be kept, once the newest of them has proved sound."""
        doomed = [step for step in steps if step not in keep]
        if not doomed or not self.sound(steps[-1]):
            return
        for step in doomed:
            try:
                remove_folder(self.at(step))
            except OSError as error:
                self.say(f"An old checkpoint could not be removed: {error}")


def rank_in(place: Path) -> int:
    return int(place.stem.partition("-")[2])


def part_of_rank(parts: list[dict[str, Tensor]], rank: int, count: int) -> dict[str, Tensor]:
    """Of what ranks have carried, by rank, what one of `count` ranks goes on with.  A name that begins with a turn (one
    of the micro-batches of a step) belongs to the rank which takes that turn now, any other to the rank itself."""
    if not parts:
        return {}
    found = {name: tensor for name, tensor in parts[rank % len(parts)].items() if not turn_in(name)}
    for part in parts:
        found |= {
            name: tensor for name, tensor in part.items() if (turn := turn_in(name)) and int(turn) % count == rank
        }
    return found


def turn_in(name: str) -> str:
    turn, dot, _ = name.partition(".")
    return turn if dot and turn.isdecimal() else ""


def mean(tensors: list[Tensor]) -> Tensor:
    last = tensors[-1]
    return torch.stack(tensors).double().mean(0).to(last.dtype) if last.is_floating_point() else last


def checkpoint_size(module: nn.Module) -> int:
    """About how many bytes a checkpoint takes: the weights, and two numbers of AdamW's for each."""
    return 3 * sum(tensor.nbytes for tensor in weights_of(module).values())


def optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    parameters = dict(module.named_parameters())
    return {f"{name}/{key}": value for name, p in parameters.items() for key, value in optimizer.state[p].items()}


def restore_optimizer(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(module.named_parameters())
    for place, tensor in tensors.items():
        name, _, key = place.rpartition("/")
        optimizer.state[parameters[name]][key] = tensor.to(parameters[name].device, copy=True)
