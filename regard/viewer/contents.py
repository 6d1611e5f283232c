"""What of a Look a file of limited size holds, told by its header before anything is computed.

Letters: H heads, Q queries, K keys, D size of a head, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from math import prod
from typing import Any

SHORT = 64  # pieces of texts that come with all their details
EXPLAINED = 10**10  # multiplications, about, that explaining all tokens may take: seconds
FLOAT, ROUNDED = "float32", "uint16"  # four bytes a number; two, for numbers from 0 to 1 in steps of 1/65535
SIZES = {FLOAT: 4, ROUNDED: 2}
SIGNED = ("states/",)  # blocks whose numbers are not from 0 to 1
Shape = tuple[int, ...]


@dataclass
class Contents:
    """Which blocks, each as what type; and in words what is not there."""

    types: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def contents(header: dict[str, Any], room: int | None = None, layer: int = 0) -> Contents:
    """What fits into so many bytes (None: any number); where not all layers do, this one is the first of them."""
    layers, details = weights_of(header, layer), details_of(header)
    first = dict(islice(layers.items(), len(header["attentions"])))  # a layer of each is shown as the page opens
    whole = {**first, **outline_of(header), **layers}
    if room is None or total({**whole, **details}, FLOAT) <= room:
        return Contents(dict.fromkeys([*whole, *details], FLOAT), without_details(header, details))
    if total(whole, FLOAT) <= room:
        return Contents(dict.fromkeys(whole, FLOAT), without_details(header, {}))
    return rounded(header, whole, room)


def rounded(header: dict[str, Any], whole: dict[str, Shape], room: int) -> Contents:
    """As many blocks as there is room for, the first first."""
    kept = Contents(notes=["Weights are rounded to 1/65535 in this file.", *without_details(header, {})])
    for name, shape in whole.items():
        kind = FLOAT if name.startswith(SIGNED) else ROUNDED
        if (size := total({name: shape}, kind)) <= room:
            kept.types[name] = kind
            room -= size
    kept.notes += missing(header, whole, kept)
    return kept


def outline_of(header: dict[str, Any]) -> dict[str, Shape]:
    """What stands for all layers, by name: the mean over heads, recurrent states, pictures, the rollout."""
    shapes = {f"{one['name']}/mean": across(one) for one in header["attentions"]}
    for one in header["states"]:
        length = len(header["sides"][one["side"]]["pieces"])
        for number, state in enumerate(one["layers"]):
            shapes[f"states/{one['name']}/{number}"] = (len(one["parts"]), length, state["width"])
    shapes |= {f"picture/{name}": tuple(one["shape"]) for name, one in header.get("pictures", {}).items()}
    return shapes | {f"{one['name']}/rollout": across(one) for one in header["attentions"] if one["rollout"]}


def across(attention: dict[str, Any]) -> Shape:  # (L, Q, K)
    layers = attention["layers"]
    return (len(layers), layers[0]["queries"], layers[0]["keys"])


def weights_of(header: dict[str, Any], first: int = 0) -> dict[str, Shape]:
    """Every layer's weights: of each attention in turn, the first layer, the last, then those between."""
    lists = []
    for one in header["attentions"]:
        layers = {n: (at["heads"], at["queries"], at["keys"]) for n, at in enumerate(one["layers"])}
        lists.append([(f"{one['name']}/{n}/weights", layers[n]) for n in spread(len(layers), first)])
    return dict(pair for pair in chain(*zip_longest(*lists)) if pair)


def spread(count: int, first: int = 0) -> list[int]:
    """The numbers below `count`, each as far as can be from those before it."""
    order = [min(first, count - 1)]
    while len(order) < count:
        left = [n for n in range(count) if n not in order]
        order.append(max(left, key=lambda n: min(abs(n - other) for other in order)))
    return order


def details_of(header: dict[str, Any]) -> dict[str, Shape]:
    """How the weights came, and what else rests on them: of short texts alone."""
    length = longest(header)
    shapes: dict[str, Shape] = {}
    for one in header["attentions"] if length <= SHORT else []:
        name = one["name"]
        for number, layer in enumerate(one["layers"]):
            heads, queries, keys, size = (layer[key] for key in ("heads", "queries", "keys", "size"))
            if not size:  # of these weights nobody knows how they came
                continue
            shapes |= {f"{name}/{number}/q": (heads, queries, size), f"{name}/{number}/k": (heads, keys, size)}
            shapes |= {f"{name}/{number}/v": (heads, keys, size), f"{name}/{number}/scores": (heads, queries, keys)}
            shapes |= {f"{name}/{number}/bias": (heads, queries, keys)} if layer["bias"] else {}
        _, queries, keys = across(one)
        shapes |= {f"{name}/flow": (queries, keys)} if one["flow"] else {}
        if explains(one):
            shapes |= {f"{name}/explain/{at}": (len(header["explanations"]), keys) for at in range(queries)}
    return shapes


def without_details(header: dict[str, Any], details: dict[str, Shape]) -> list[str]:
    """A note on what is left out of a file, if anything is."""
    if not header["attentions"]:
        return []
    if not details:
        return ["This file does not hold queries, keys, values, scores, flow and explanations: the text is too long."]
    if any(one["explain"] and not explains(one) for one in header["attentions"]):
        return [
            "This file holds no explanations: for every token they would take long. A page that is served has them."
        ]
    return []


def explains(attention: dict[str, Any]) -> bool:
    """Whether every token can be explained while one waits: for each of them each token is hidden once."""
    layers, queries, keys = across(attention)
    width = attention["layers"][0]["heads"] * attention["layers"][0]["size"]
    return bool(attention["explain"]) and queries * keys**2 * layers * width**2 <= EXPLAINED


def missing(header: dict[str, Any], whole: dict[str, Shape], kept: Contents) -> list[str]:
    """Notes on the layers, means, states and rollouts that there was no room for."""
    notes = []
    for one in header["attentions"]:
        layers = [n for n in range(len(one["layers"])) if f"{one['name']}/{n}/weights" in kept.types]
        if len(layers) < len(one["layers"]):
            some = f"of layer {', '.join(str(n + 1) for n in layers)} only" if layers else "of no layer"
            notes.append(f"{one['title']}: this file holds the heads {some}; for others there was no room.")
    left = [name for name in whole if name not in kept.types and not name.endswith("/weights")]
    return [*notes, *([f"There was no room for {', '.join(left)}."] if left else [])]


def longest(header: dict[str, Any]) -> int:
    return max((len(side["pieces"]) for side in header["sides"].values()), default=0)


def total(shapes: dict[str, Shape], kind: str) -> int:
    """Bytes of blocks in a file: base64 writes four characters for three bytes."""
    return sum(-(-prod(shape) * SIZES[kind] // 3) * 4 for shape in shapes.values())
