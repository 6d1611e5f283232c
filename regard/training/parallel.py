"""Several processes training one model: the ranks that torchrun starts.  One process alone is a single rank."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import Problem

TIMEOUT = timedelta(minutes=10)  # for a rank to wait for the others: longer than any save, far shorter than a night
STOPPED = "stopped"  # where in the store the first rank to fail leaves its message
TIMES = itertools.count()  # a process may train more than once: each time has its own corner of the store


@dataclass(frozen=True)
class Ranks:
    """This process among its like.  A method with a collective in it must be called on every rank."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over ranks in backward."""
        return DistributedDataParallel(module, gradient_as_bucket_view=True) if self.count > 1 else module

    def apart(self, module: nn.Module) -> AbstractContextManager:
        """Keep gradients to this rank for now: of the micro-batches of a step only the last need exchange them."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        if self.count > 1:
            distributed.all_reduce(values)
        return values

    def barrier(self) -> None:
        if self.count > 1:
            distributed.barrier()

    def from_first(self, values: list[float], device: torch.device) -> list[float]:
        """The numbers that the first rank has."""
        if self.count == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.broadcast(tensor, 0)
        return tensor.tolist()

    def agree(self, device: torch.device, **texts: str) -> None:
        """Refuse to go on when ranks were given different things."""
        for name, text in texts.items():
            digest = [float(byte) for byte in hashlib.sha256(text.encode()).digest()]
            differs = torch.tensor(float(digest != self.from_first(digest, device)), device=device)
            if self.sum(differs).item():
                raise Problem(f"The ranks were given different {name}. Start all with the same command and files.")


def is_first() -> bool:
    """Whether this process is the one that writes and speaks, known before the ranks have joined."""
    return os.environ.get("RANK", "0") == "0"


def rank_count() -> int:
    """How many processes train together, likewise."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def here() -> torch.device:
    """The GPU of this process, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


@contextmanager
def together(device: torch.device) -> Iterator[Ranks]:
    """Join the ranks that torchrun started, and leave with the message of the first that fails."""
    if distributed.is_initialized():  # by the caller, who will also end it
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
        return
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Ranks()
        return
    store, rank, count = next(distributed.rendezvous("env://", timeout=TIMEOUT))
    # torchrun keeps its store when it starts the ranks again: what the killed ones left there must not be read
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = distributed.PrefixStore(f"regard/{restart}/{next(TIMES)}", store)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=TIMEOUT)
    try:
        yield Ranks(rank, count)
    except Exception as error:
        culprit, _, message = store.compare_set(STOPPED, "", f"{rank} {error}").decode().partition(" ")
        if culprit == str(rank) or isinstance(error, Problem):
            raise
        raise Problem(f"Rank {culprit} stopped: {message}") from error
    finally:
        time.sleep(1)  # let gloo's threads drop their last Python objects: freeing the group first may deadlock
        distributed.destroy_process_group()
