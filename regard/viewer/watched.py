"""What was watched while a model ran, as the layers of a Look.

Letters: H heads, Q queries, K keys, D size of a head, W width of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.score import Additive, Cosine, Dot, General, Location, ScaledDot, Score
from regard.attention.watch import Call, joined
from regard.errors import Problem
from regard.layers.changed import marks_of
from regard.layers.watching import Ran, states_of
from regard.viewer.look import Recurring

SCORES: dict[type[Score], str] = {
    Cosine: "cosine",
    Additive: "additive",
    Location: "location",
    General: "general",
    Dot: "dot",
    ScaledDot: "scaled-dot",
}
Some = TypeVar("Some", Call, Ran)
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, eq=False)
class Watched:
    """A layer of an attention that ran on one text."""

    call: Call

    @classmethod
    def of(cls, steps: Sequence[Call]) -> Watched:
        """From the calls of one layer, a part of the text after the other; in full precision."""
        call = joined(steps)
        memory = replace(call.memory, k=call.memory.k.float(), v=call.memory.v.float())
        given = None if call.given is None else call.given.float()
        score, position, route = call.score.float(), call.position.float(), call.route.float()
        own = replace(call, score=score, position=position, route=route)
        return cls(replace(own, q=call.q.float(), memory=memory, given=given))

    def about(self) -> dict[str, Any]:
        call, score = self.call, self.call.score
        sizes = {"heads": call.q.shape[1], "queries": len(call.q), "keys": len(call.memory.k)}
        sizes["size"] = call.memory.k.shape[-1]
        told = {"score": SCORES[type(score)], "scale": float(score.scale), "bias": call.has_bias}
        return {"module": call.name, **sizes, **told}

    @torch.inference_mode()
    def block(self, kind: str) -> np.ndarray:
        return array_of(BLOCKS[kind](self.call))


def whole_bias(call: Call) -> Tensor:  # (H, Q, K)
    bias = call.bias()
    if bias is None:
        raise KeyError("bias")
    return bias[0].expand(call.q.shape[1], len(call.q), len(call.memory.k))


BLOCKS: dict[str, Callable[[Call], Tensor]] = {
    "weights": lambda call: call.weights()[0],
    "scores": lambda call: call.scores()[0],
    "bias": whole_bias,
    "q": lambda call: call.queries().transpose(0, 1),
    "k": lambda call: call.memory.k.transpose(0, 1),
    "v": lambda call: call.memory.v.transpose(0, 1),
}


def array_of(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def by_layer(steps: Sequence[Sequence[Some]]) -> list[list[Some]]:
    """What ran in each part of a text, as what each layer ran."""
    return [list(layer) for layer in zip(*steps, strict=True)]


def recurring(model: nn.Module, runs: Sequence[list[Ran]], side: str, prefix: str = "") -> list[Recurring]:
    """The runs of every layer, a part of the text after the other, sorted by the way in which they read."""
    found = []
    for backward in (False, True):
        layers = [layer for layer in runs if layer[0].backward == backward]
        if layers:
            found.append(one_way(model, layers, side, prefix))
    return found


def one_way(model: nn.Module, layers: Sequence[list[Ran]], side: str, prefix: str) -> Recurring:
    first, way = layers[0][0], "backward" if layers[0][0].backward else "forward"
    about = [{"width": ran.width} | ({"projected": ran.projected} if ran.projected else {}) for ran, *_ in layers]
    title = f"{prefix.capitalize()}, {way}s" if prefix else f"{way.capitalize()}s"
    name = f"{prefix}-{way}" if prefix else way
    compute = only_while_unchanged(model, lambda layer: array_of(states_of(layers[layer])))
    return Recurring(name, title, side, first.cell, first.backward, first.parts, about, compute)


def only_while_unchanged(model: nn.Module, compute: Callable[Arguments, np.ndarray]) -> Callable[Arguments, np.ndarray]:
    """What is computed later by a model's weights is refused once they are others."""
    then = marks_of(model)

    def asked(*given: Arguments.args, **named: Arguments.kwargs) -> np.ndarray:
        if marks_of(model) != then:
            raise Problem("the model has learned since it was looked at, and this had not been computed; look again")
        return compute(*given, **named)

    return asked
