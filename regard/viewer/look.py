"""A Look: what one model did with one text.  Its header tells what there is; its blocks are arrays, computed when they
are asked for.

Letters: L layers, H heads, Q queries, K keys, D size of a head, T tokens of a side, W width of a state.
"""

from __future__ import annotations

import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Protocol

import numpy as np

from regard.errors import Problem
from regard.viewer.file import notebook_cell
from regard.viewer.rollout import flow, flow_can, rollout
from regard.viewer.saving import as_json, save
from regard.viewer.sides import Side
from regard.viewer.view import View

FORMAT = 1
KEPT = 2**28  # bytes of computed blocks that are kept; those asked for longest ago go first
LARGEST = 2**31  # bytes that an array of a file may unfold to
EXPLANATIONS = ["attention", "rollout", "gradient x attention", "occlusion"]
Kind = Literal["encoder", "decoder", "encoder-decoder", "recurrent"]


class Layer(Protocol):
    """One layer of an attention."""

    def about(self) -> dict[str, Any]:
        """Its module, heads, queries, keys, size, score, scale and whether it has a bias."""

    def block(self, kind: str) -> np.ndarray:
        """weights, scores or bias, (H, Q, K); q, (H, Q, D); k or v, (H, K, D).  What there is not is a KeyError."""


@dataclass(frozen=True, eq=False)
class Attending:
    """The layers by which the tokens of one side look at those of another, or at each other."""

    name: str
    title: str
    queries: str  # names of sides
    keys: str
    layers: Sequence[Layer]
    causal: bool = False
    explained: Sequence[str] = ()  # what is explained: the log-probability of a token or a label, or a state
    explain: Callable[[Look, int], np.ndarray] | None = None  # of a query, what its output rests on: (4, K)

    @property
    def rolls(self) -> bool:
        """Only where tokens look at each other can one layer's looks be followed into the layer below."""
        return self.queries == self.keys

    @property
    def flows(self) -> bool:
        return self.rolls and flow_can(len(self.layers), self.layers[0].about()["queries"])

    def header(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "queries": self.queries,
            "keys": self.keys,
            "causal": self.causal,
            "rollout": self.rolls,
            "flow": self.flows,
            "explain": list(self.explained) if self.explain else [],
            "layers": [layer.about() for layer in self.layers],
        }

    def mean(self) -> np.ndarray:  # (L, Q, K)
        return np.stack([layer.block("weights").mean(0) for layer in self.layers])


@dataclass(frozen=True, eq=False)
class Recurring:
    """Gates and states of recurrent layers that read one way."""

    name: str
    title: str
    side: str
    cell: str
    backward: bool
    parts: Sequence[str]
    layers: Sequence[dict[str, Any]]
    compute: Callable[[int], np.ndarray]  # of a layer: (parts, T, W)

    def header(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("name", "title", "side", "cell", "backward")}
        return {**told, "parts": list(self.parts), "layers": list(self.layers)}


@dataclass(frozen=True, eq=False)
class Picture:
    """What a side shows: its tokens from `first` on are patches, row after row."""

    pixels: np.ndarray  # (height, width, 3), from 0 to 1
    rows: int
    columns: int
    first: int = 0

    def header(self) -> dict[str, Any]:
        return {"shape": [*self.pixels.shape], "rows": self.rows, "columns": self.columns, "first": self.first}


@dataclass(eq=False)
class Look:
    """What one model did with one text."""

    model: str  # its name, for people
    family: str
    kind: Kind
    sides: dict[str, Side]
    attentions: Sequence[Attending] = ()
    states: Sequence[Recurring] = ()
    notes: list[str] = field(default_factory=list)
    output: dict[str, Any] = field(default_factory=dict)  # the side it is of, and predictions
    pictures: dict[str, Picture] = field(default_factory=dict)  # of sides that are no text

    def __post_init__(self) -> None:
        self._kept: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = RLock()  # a server asks from several threads

    @classmethod
    def of_arrays(
        cls, weights: np.ndarray, queries: Sequence[str], keys: Sequence[str] | None = None, name: str = ""
    ) -> Look:
        """Anybody's weights, (L, H, Q, K), and the tokens they are of; without keys, tokens that look at each other."""
        weights = checked(np.asarray(weights), len(queries), len(queries if keys is None else keys))
        layers = [Given(layer, f"layer {number}") for number, layer in enumerate(weights)]
        if keys is not None:
            sides = {"target": Side.of_anybody(queries), "source": Side.of_anybody(keys)}
            attending = Attending("cross", "From target to source", "target", "source", layers)
            return cls(name, "", "encoder-decoder", sides, [attending])
        causal = not np.triu(weights, 1).any() and len(queries) > 1
        kind: Kind = "decoder" if causal else "encoder"
        attending = Attending(kind, kind.capitalize(), "text", "text", layers, causal)
        return cls(name, "", kind, {"text": Side.of_anybody(queries)}, [attending])

    @classmethod
    def of_file(cls, path: str | Path) -> Look:
        """The same from an .npz of `weights` and `queries`; it may have `keys` and a `name` too."""
        arrays = read_arrays(Path(path))
        for wanted in ("weights", "queries"):
            if wanted not in arrays:
                there = ", ".join(arrays) or "none"
                raise Problem(f"{path} has no array {wanted!r} (its arrays: {there}); save it under this name")
        texts = {key: strings(arrays[key], f"{path}: {key}") for key in ("queries", "keys") if key in arrays}
        name = str(arrays["name"]) if "name" in arrays else Path(path).stem
        try:
            return cls.of_arrays(arrays["weights"], texts["queries"], texts.get("keys"), name)
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from None

    def header(self) -> dict[str, Any]:
        """All that is told of it in words, ready for JSON."""
        explains = any(attending.explain for attending in self.attentions)
        return {
            "format": FORMAT,
            "model": self.model,
            "family": self.family,
            "kind": self.kind,
            "notes": list(self.notes),
            "sides": {name: side.header() for name, side in self.sides.items()},
            "attentions": [attending.header() for attending in self.attentions],
            "states": [recurring.header() for recurring in self.states],
            "output": self.output or {"side": next(iter(self.sides)), "predictions": []},
            "explanations": list(EXPLANATIONS) if explains else [],
            **({"pictures": {name: one.header() for name, one in self.pictures.items()}} if self.pictures else {}),
        }

    def blocks(self) -> list[str]:
        """The names of all blocks, but for explanations, which are one a query."""
        names = []
        for attending in self.attentions:
            for number, layer in enumerate(attending.layers):
                about = layer.about()
                kinds = ["weights"] + ["q", "k", "v", "scores"] * bool(about["size"]) + ["bias"] * about["bias"]
                names += [f"{attending.name}/{number}/{kind}" for kind in kinds]
            whole = ["mean"] + ["rollout"] * attending.rolls + ["flow"] * attending.flows
            names += [f"{attending.name}/{kind}" for kind in whole]
        names += [f"states/{one.name}/{number}" for one in self.states for number in range(len(one.layers))]
        return names + [f"picture/{name}" for name in self.pictures]

    def block(self, name: str) -> np.ndarray:
        """An array by its name, float32 in C order."""
        with self._lock:
            if name not in self._kept:
                array = np.ascontiguousarray(self._computed(name), np.float32)
                array.flags.writeable = False
                self._kept[name] = array
                self._forget(but=name)
            self._kept.move_to_end(name)
            return self._kept[name]

    def save(self, path: str | Path, view: View | None = None) -> None:
        """Write it as .html, .json, .npz, .png, .svg or .pdf."""
        save([self], path, view)

    def json(self) -> dict[str, Any]:
        return as_json(self)

    def _repr_html_(self) -> str:  # notebooks ask for it
        return notebook_cell([self])

    @property
    def held(self) -> int:
        """Bytes of blocks that are kept."""
        return sum(array.nbytes for array in self._kept.values())

    def _forget(self, but: str) -> None:
        while self.held > KEPT and next(iter(self._kept)) != but:
            self._kept.popitem(last=False)

    def _computed(self, name: str) -> np.ndarray:
        try:
            match name.split("/"):
                case ["states", one, layer]:
                    recurring = named(self.states, one)
                    return recurring.compute(number(layer, len(recurring.layers)))
                case ["picture", one]:
                    return self.pictures[one].pixels
                case [one, "mean" | "rollout" | "flow" as kind]:
                    return self._over_layers(named(self.attentions, one), kind)
                case [one, "explain", query]:
                    attending = named(self.attentions, one)
                    if attending.explain is not None:
                        return attending.explain(self, number(query, attending.layers[0].about()["queries"]))
                case [one, layer, kind]:
                    layers = named(self.attentions, one).layers
                    return layers[number(layer, len(layers))].block(kind)
            raise KeyError(name)
        except KeyError:
            raise Problem(f"this look has no block {name[:80]!r}; its header tells which there are") from None

    def _over_layers(self, attending: Attending, kind: str) -> np.ndarray:
        if kind == "mean":
            return attending.mean()
        if not (attending.flows if kind == "flow" else attending.rolls):
            raise KeyError(kind)
        mean = self.block(f"{attending.name}/mean")
        return rollout(mean) if kind == "rollout" else flow(mean)


@dataclass(frozen=True, eq=False)
class Given:
    """A layer of which the weights are known, and not how they came."""

    weights: np.ndarray  # (H, Q, K)
    module: str

    def about(self) -> dict[str, Any]:
        heads, queries, keys = self.weights.shape
        sizes = {"heads": heads, "queries": queries, "keys": keys, "size": 0}
        return {"module": self.module, **sizes, "score": "given", "scale": 1.0, "bias": False}

    def block(self, kind: str) -> np.ndarray:
        return {"weights": self.weights}[kind]


def named(parts: Sequence[Any], name: str) -> Any:
    return {part.name: part for part in parts}[name]


def number(text: str, count: int) -> int:
    """A number from 0 below `count`, as a name has it."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < count):
        raise KeyError(text)
    return int(text)


def checked(weights: np.ndarray, queries: int, keys: int) -> np.ndarray:
    """Weights, if they are some: shares of attention that sum to 1, or to 0 where a query looks at nothing."""
    if weights.ndim != 4 or weights.dtype.kind not in "fiub" or 0 in weights.shape:
        shape = f"{weights.dtype} of shape {weights.shape}"
        raise Problem(f"weights are numbers of shape (layers, heads, queries, keys); these are {shape}")
    if weights.shape[2:] != (queries, keys):
        raise Problem(f"weights of shape {weights.shape} for {queries} queries and {keys} keys: give a token for each")
    weights = weights.astype(np.float32)
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise Problem("weights are finite and not negative; these are not: give what came out of the softmax")
    sums = weights.sum(-1)
    wrong = (abs(sums - 1) > 1e-2) & (sums != 0)  # half precision rounds each of many weights
    if wrong.any():
        layer, head, query = np.argwhere(wrong)[0]
        total = sums[layer, head, query]
        where = f"layer {layer}, head {head}, query {query}"
        raise Problem(f"{where}: the weights sum to {total:.4g} and not to 1; give what came out of the softmax")
    return weights


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz; no objects, and nothing that unfolds beyond reason."""
    try:
        with zipfile.ZipFile(path) as file:
            largest = max((entry.file_size for entry in file.infolist()), default=0)
        if largest > LARGEST:
            raise Problem(
                f"{path} unfolds to {largest:,} bytes, more than the {LARGEST:,} that are read; give fewer layers"
            )
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Problem:
        raise
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        raise Problem(f"{path} cannot be read as an .npz of arrays ({error}); write it by numpy.savez") from error


def strings(array: np.ndarray, where: str) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise Problem(f"{where} is an array of {array.dtype} of shape {array.shape}; give a list of texts")
    return [one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in array.tolist()]
