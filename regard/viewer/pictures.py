"""Pictures of a Look: one matrix, the heads as lines, all layers by all heads, raw attention beside its rollout; and,
where a picture was looked at, both laid over it.

Letters: H heads, Q queries, K keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.viewer.alignment import CELL, LONGEST_SIDE, Alignment
from regard.viewer.figure import label, text_style, write_figure
from regard.viewer.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.viewer.look import Look, Picture

THUMBNAIL, GAP = 48, 2  # pixels of a head in the grid at most, and between two
FAINTEST, STRONGEST = 0.04, 8  # of lines: weights below are not drawn, and so many keys at most of a query and head
# Okabe and Ito (2008), as on the page; those of each further eight heads are mixed with black or white
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#d8c400", "#0072b2", "#d55e00", "#cc79a7", "#3b3f45")
TINTS = (0, -0.4, 0.45, -0.65)
DARKEST = 0.12  # light on a patch that is not looked at


@dataclass(frozen=True, eq=False)
class Sides:
    """The tokens of an attention, words or pieces, and the piece that each begins with."""

    queries: list[str]
    keys: list[str]
    starts: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, header: dict[str, Any], attention: dict[str, Any], words: bool) -> Sides:
        (queries, first), (keys, second) = (tokens(header["sides"][attention[at]], words) for at in ("queries", "keys"))
        return cls(queries, keys, (first, second))

    def joined(self, weights: np.ndarray) -> np.ndarray:  # (..., Q, K) of pieces -> (..., Q, K)
        """A token looks as its pieces do on average, at another as much as at all its pieces together."""
        queries, keys = self.starts
        sizes = np.diff(queries, append=weights.shape[-2])
        return np.add.reduceat(np.add.reduceat(weights, keys, axis=-1), queries, axis=-2) / sizes[:, None]


def tokens(side: dict[str, Any], words: bool) -> tuple[list[str], np.ndarray]:
    numbers = side["words"] if words else range(len(side["pieces"]))
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = [*starts[1:], len(side["pieces"])]
    return ["".join(side["shown"][start:end]) for start, end in zip(starts, ends, strict=True)], starts


def picture(look: Look, path: str | Path, view: View | None = None) -> None:
    """Draw a view of a Look; the format by the file's extension."""
    view, path, header = view or View(), Path(path), look.header()
    attention = view.attention_of(header)
    sides = Sides.of(header, attention, view.words is not False)
    if view.name == "matrix":
        Alignment(sides.keys, sides.queries, sides.joined(matrix(look, attention["name"], view))).picture(path)
    elif view.name == "heads":
        write_figure(path, lambda: heads_figure(look, attention, view, sides))
    elif view.name == "grid":
        write_figure(path, lambda: grid_figure(look, attention))
    elif view.name == "picture":
        write_figure(path, lambda: picture_figure(look, attention, view))
    else:
        write_figure(path, lambda: rollout_figure(look, attention, view, sides))


def matrix(look: Look, attention: str, view: View) -> np.ndarray:  # (Q, K)
    mean = look.block(f"{attention}/mean")
    if view.layer is None:
        return mean.mean(axis=0)
    if view.head is None:
        return mean[view.layer - 1]
    return look.block(f"{attention}/{view.layer - 1}/weights")[view.head - 1]


def layer_of(attention: dict[str, Any], view: View) -> int:
    """The layer that is shown, counted from 0."""
    return (view.layer or len(attention["layers"])) - 1


def heads_figure(look: Look, attention: dict[str, Any], view: View, sides: Sides) -> Figure:
    """Two columns of tokens, and lines as thick as the weight, in their heads' colours."""
    from matplotlib.figure import Figure

    weights = look.block(f"{attention['name']}/{layer_of(attention, view)}/weights")
    numbers = range(len(weights)) if view.head is None else [view.head - 1]
    rows = max(len(sides.queries), len(sides.keys))
    cell = min(CELL, LONGEST_SIDE / rows)
    figure = Figure(figsize=(3, rows * cell))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1), ylim=(rows - 0.5, -0.5))
    axes.axis("off")
    for number in numbers:
        draw_lines(axes, sides.joined(weights[number]), number, 8 * cell / CELL)
    axes.legend(title="head", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=8, frameon=False)
    style = {**text_style(), "fontsize": 36 * cell, "verticalalignment": "center"}
    for x, side, words in ((-0.02, "right", sides.queries), (1.02, "left", sides.keys)):
        for y, word in enumerate(words):
            axes.text(x, y, label(word), horizontalalignment=side, **style)
    return figure


def draw_lines(axes: Axes, weights: np.ndarray, head: int, thickest: float) -> None:
    from matplotlib.collections import LineCollection

    colour = colour_of(head)
    ends, strengths = lines(weights)
    axes.add_collection(LineCollection(list(ends), linewidths=thickest * strengths, colors=colour, alpha=0.5))
    axes.plot([], [], color=colour, linewidth=3, label=str(head + 1))  # for the legend alone


def colour_of(head: int) -> str:
    tint = TINTS[head // len(COLOURS) % len(TINTS)]
    towards = 255 if tint > 0 else 0
    parts = bytes.fromhex(COLOURS[head % len(COLOURS)][1:])
    return "#" + bytes(round(part + (towards - part) * abs(tint)) for part in parts).hex()


def lines(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (Q, K) -> (lines, 2, 2), (lines,)
    """From each query to the keys it looks at most: the ends of lines, and their strengths."""
    most = np.argsort(-weights, axis=1, kind="stable")[:, :STRONGEST]
    queries, keys = np.repeat(np.arange(len(weights)), most.shape[1]), most.ravel()
    strengths = weights[queries, keys]
    ends = np.stack([np.zeros(len(keys)), queries, np.ones(len(keys)), keys], axis=1).reshape(-1, 2, 2)
    seen = strengths >= FAINTEST
    return ends[seen], strengths[seen]


def grid_figure(look: Look, attention: dict[str, Any]) -> Figure:
    """All layers, the first on top, by all heads: each as small as it can be seen."""
    from matplotlib.figure import Figure

    whole, height, width = grid(look, attention)
    layers, heads = (whole.shape[0] + GAP) // height, (whole.shape[1] + GAP) // width
    figure = Figure(figsize=(0.8 * heads, 0.8 * layers * height / width))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_facecolor("0.85")
    axes.imshow(np.sqrt(whole), cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(heads) * width + (width - GAP) / 2, counted(heads))
    axes.set_yticks(np.arange(layers) * height + (height - GAP) / 2, counted(layers))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def counted(number: int) -> list[str]:
    return [str(one) for one in range(1, number + 1)]


def grid(look: Look, attention: dict[str, Any]) -> tuple[np.ndarray, int, int]:
    """One array of all heads, not a number where there is none; and how far apart they begin, down and across."""
    layers = attention["layers"]
    height, width = (min(layers[0][side], THUMBNAIL) + GAP for side in ("queries", "keys"))
    whole = np.full((len(layers) * height, max(layer["heads"] for layer in layers) * width), np.nan)
    for row in range(len(layers)):
        for column, weights in enumerate(look.block(f"{attention['name']}/{row}/weights")):
            top, left = row * height, column * width
            whole[top : top + height - GAP, left : left + width - GAP] = thumbnail(weights)
    return whole[:-GAP, :-GAP], height, width


def thumbnail(weights: np.ndarray) -> np.ndarray:
    """At most so many rows and columns, each the highest of those that it stands for: a thin line stays visible."""
    for axis in (0, 1):
        if weights.shape[axis] > THUMBNAIL:
            starts = np.arange(THUMBNAIL) * weights.shape[axis] // THUMBNAIL
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def rollout_figure(look: Look, attention: dict[str, Any], view: View, sides: Sides) -> Figure:
    """What a layer looks at, and what that comes to in the input, side by side."""
    from matplotlib.figure import Figure

    layer = layer_of(attention, view)
    rows, columns = len(sides.queries), len(sides.keys)
    cell = min(CELL, LONGEST_SIDE / max(rows, 2 * columns))
    figure = Figure(figsize=(2 * columns * cell + 2, rows * cell))
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(0, 0, 1, 1, wspace=2 / (columns * cell + 1))  # room for the words between
    for axes, kind, title in (
        (left, "mean", f"layer {layer + 1}"),
        (right, "rollout", f"rollout to layer {layer + 1}"),
    ):
        shaded(axes, sides.joined(look.block(f"{attention['name']}/{kind}")[layer]), sides, cell, title)
    return figure


def picture_figure(look: Look, attention: dict[str, Any], view: View) -> Figure:
    """The picture; where its first token looks, in a layer; and what that comes to in the input."""
    from matplotlib.figure import Figure

    layer, name, about = layer_of(attention, view), attention["name"], look.pictures[attention["keys"]]
    looks = matrix(look, name, View("picture", layer=layer + 1, head=view.head))[0]
    rolled = look.block(f"{name}/rollout")[layer, 0] if attention["rollout"] else looks
    of = "mean of heads" if view.head is None else f"head {view.head}"
    figure = Figure(figsize=(9, 3.2))
    panels = (("as it was read", None), (f"layer {layer + 1}, {of}", looks), (f"rollout to layer {layer + 1}", rolled))
    for axes, (title, weights) in zip(figure.subplots(1, 3), panels, strict=True):
        lit = about.pixels if weights is None else about.pixels * light(weights, about)[..., None]
        axes.imshow(lit, vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.axis("off")
    return figure


def light(weights: np.ndarray, about: Picture) -> np.ndarray:  # (K,) -> (height, width)
    """How bright each pixel is shown: that of its patch, the strongest as it is."""
    patches = weights[about.first :].reshape(about.rows, about.columns)
    shares = DARKEST + (1 - DARKEST) * np.sqrt(patches / max(float(patches.max()), 1e-12))
    height, width = about.pixels.shape[:2]
    down, across = ((np.arange(side) * count // side) for side, count in ((height, about.rows), (width, about.columns)))
    return shares[down][:, across]


def shaded(axes: Axes, weights: np.ndarray, sides: Sides, cell: float, title: str) -> None:
    darkest = float(weights.max())  # with the residual counted over many layers, no weight is near 1
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=darkest, aspect="auto", interpolation="nearest")
    style = {**text_style(), "fontsize": 36 * cell}
    axes.set_xticks(range(len(sides.keys)), [label(word) for word in sides.keys], rotation=90, **style)
    axes.set_yticks(range(len(sides.queries)), [label(word) for word in sides.queries], **style)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_color("0.6")
    axes.set_xlabel(f"{title}; black is {darkest:.2f}", fontsize=8)
