"""Both passes of a module as one launch each: a CUDA graph for every shape of what comes in."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.recording import recording

WARM_UP = 3  # passes before a graph is recorded: libraries make themselves ready in the first ones

# What a module makes of tensors, with these in place of its parameters; the first of what it gives has a way back
Run = Callable[..., list[Tensor]]


class Recorded:
    """A module's graphs: they share memory, for no two of them are at work at once."""

    def __init__(self, module: nn.Module):
        self.module = module
        learned = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.names, self.parameters = list(learned), list(learned.values())
        self.gradients = [torch.empty_like(p) for p in self.parameters]  # where all graphs put them
        self.graphs: dict[Hashable, Graph] = {}
        self.user: Callable[[], User | None] = lambda: None  # who came by a graph, and has not gone back yet

    @cached_property
    def pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @property
    def busy(self) -> bool:
        return self.user() is not None

    def __call__(self, key: Hashable, run: Run, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What `run` gives, by the graph with this key.  It lies where the graph will put the next, too."""
        if key not in self.graphs:
            self.keep_what_was_summed()
            self.graphs[key] = Graph(self, run, inputs)
        return Replay.apply(self.graphs[key], *inputs, *self.parameters)

    def keep_what_was_summed(self) -> None:
        """Gradients of an earlier micro-batch lie where the next ones are about to: move them."""
        for parameter, place in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not None and parameter.grad.data_ptr() == place.data_ptr():
                parameter.grad = parameter.grad.clone()


class Graph:
    """Both passes in one shape, and the tensors they read and write."""

    def __init__(self, recorded: Recorded, run: Run, inputs: Sequence[Tensor]):
        self.recorded, self.run, device = recorded, run, inputs[0].device
        self.inputs = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        # The same numbers as leaves of their own: those of the parameters may be known to autograd by another stream
        self.leaves = [parameter.detach().requires_grad_() for parameter in recorded.parameters]
        self.forwards, self.backwards = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        chance = torch.cuda.get_rng_state(device)  # what is drawn must not depend on when this is recorded,
        buffers = [*recorded.module.buffers()]  # nor what a norm of batches counts
        were = [one.clone() for one in buffers]
        self.record(device)
        for one, was in zip(buffers, were, strict=True):
            one.copy_(was)
        torch.cuda.set_rng_state(chance, device)

    def record(self, device: torch.device) -> None:
        beside = torch.cuda.Stream(device)
        beside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                y, *_ = self.read()
                self.go_back(y, torch.zeros_like(y))
        torch.cuda.current_stream(device).wait_stream(beside)
        with recording(self.forwards, self.recorded.pool, beside):
            y, *others = self.read()
        self.outputs, self.change = [one.detach() for one in (y, *others)], torch.zeros_like(y)
        with recording(self.backwards, self.recorded.pool, beside):
            self.found, self.used = self.go_back(y, self.change)

    def go_back(self, y: Tensor, change: Tensor) -> tuple[list[Tensor | None], list[bool]]:
        """The gradients of what came in, and which parameters have one, now lying where all graphs put them."""
        learned = [one for one in self.inputs if one.requires_grad]
        gradients = torch.autograd.grad(y, [*learned, *self.leaves], change, allow_unused=True)
        of_inputs, of_leaves = iter(gradients[: len(learned)]), gradients[len(learned) :]
        pairs = zip(self.recorded.gradients, of_leaves, strict=True)
        used = [(place, gradient) for place, gradient in pairs if gradient is not None]
        torch._foreach_copy_([place for place, _ in used], [gradient for _, gradient in used])
        found = [next(of_inputs) if one.requires_grad else None for one in self.inputs]
        return found, [gradient is not None for gradient in of_leaves]

    def read(self) -> list[Tensor]:
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        # no cache: weights that are kept in half precision would not be made again, once the weights have changed
        with torch.autocast("cuda", dtype, enabled, cache_enabled=False):
            return self.run(dict(zip(self.recorded.names, self.leaves, strict=True)), *self.inputs)


class Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: Graph, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.graph, ctx.user = graph, User()
        ctx.set_materialize_grads(False)
        graph.recorded.user = weakref.ref(ctx.user)
        for place, one in zip(graph.inputs, tensors, strict=False):
            place.detach().copy_(one)
        graph.forwards.replay()
        outputs = tuple(one.detach() for one in graph.outputs)
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        graph: Graph = ctx.graph
        graph.recorded.keep_what_was_summed()
        graph.change.copy_(change)
        graph.backwards.replay()
        places = zip(graph.recorded.gradients, graph.used, strict=True)
        found = (one if one is None else one.detach() for one in graph.found)
        return None, *found, *(place.detach() if used else None for place, used in places)


class User:
    """Lives as long as the way back to a pass does."""
