"""Looks as files: a page, pictures, or their numbers as JSON or arrays; the format by the file's extension."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.checkpoints.files import write_file
from regard.errors import UsageProblem
from regard.viewer.contents import details_of, outline_of, weights_of
from regard.viewer.figure import PICTURES
from regard.viewer.file import page
from regard.viewer.pictures import picture
from regard.viewer.view import View

if TYPE_CHECKING:
    from regard.viewer.look import Look

FORMATS = (".html", ".json", ".npz", *PICTURES)
FEW = 1_000_000  # numbers that JSON is a fit form for


def save(looks: Sequence[Look], path: str | Path, view: View | None = None) -> list[Path]:
    """Write Looks; the files written are returned.

    `.html` is one page of all, `.json` a list with an object a Look, each on a line of its own.  Of pictures and `.npz`
    there is one a Look; several are numbered: NAME-1.png, NAME-2.png and so on."""
    path, view = Path(path), view or View()
    suffix = check_format(path)
    if suffix == ".html":
        write_file(path, page(looks, view=view).encode())
        return [path]
    if suffix == ".json":
        items = [json.dumps(as_json(one), ensure_ascii=False, allow_nan=False) for one in looks]
        # a lone surrogate has no UTF-8, and its backslash form is what JSON writes for it
        write_file(path, ("[\n" + ",\n".join(items) + "\n]\n").encode(errors="backslashreplace"))
        return [path]
    paths = [path] if len(looks) == 1 else [path.with_stem(f"{path.stem}-{n}") for n in range(1, len(looks) + 1)]
    for one, numbered in zip(looks, paths, strict=True):
        if suffix == ".npz":
            write_file(numbered, as_npz(one, view))
        else:
            picture(one, numbered, view)
    return paths


def check_format(path: Path) -> str:
    """The extension, in lower case, if Looks can be written so: better asked before the work than after it."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        named = suffix or "a file without extension"
        raise UsageProblem(f"{path}: what was looked at is not written as {named}; use {', '.join(FORMATS)}")
    return suffix


def as_json(look: Look) -> dict[str, Any]:
    """`look`, its header; and `blocks`, nested lists by name: all of a short text, else only what stands for all layers
    (mean over heads, rollout, states).  null is minus infinity, the score of what may not be looked at."""
    header = look.header()
    outline = outline_of(header)
    whole = {**outline, **weights_of(header), **details_of(header)}
    few = sum(map(prod, whole.values())) <= FEW
    return {"look": header, "blocks": {name: nested(look.block(name)) for name in (whole if few else outline)}}


def nested(block: np.ndarray) -> list[Any]:
    """Lists, numbers to seven digits after the point."""
    rounded = block.astype(np.float64).round(7)
    if np.isfinite(rounded).all():
        return rounded.tolist()
    numbers = rounded.astype(object)
    numbers[~np.isfinite(rounded)] = None
    return numbers.tolist()


def as_npz(look: Look, view: View) -> bytes:
    """The chosen attention as `Look.of_file` reads it: `weights` (L, H, Q, K), the tokens `queries` and, where others
    are looked at, `keys`; and `name`.  All else by the names of its blocks."""
    header = look.header()
    names = {**outline_of(header), **weights_of(header), **details_of(header)}
    arrays: dict[str, np.ndarray] = {"name": np.array(look.model)}
    if header["attentions"]:
        one = view.attention_of(header)
        layers = [f"{one['name']}/{number}/weights" for number in range(len(one["layers"]))]
        if len({names[layer] for layer in layers}) == 1:  # as many heads in each
            arrays["weights"] = np.stack([look.block(layer) for layer in layers])
            names = {name: shape for name, shape in names.items() if name not in layers}
        sides = ("queries",) if one["queries"] == one["keys"] else ("queries", "keys")
        arrays |= {side: np.array(header["sides"][one[side]]["pieces"]) for side in sides}
    arrays |= {name: look.block(name) for name in names}
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()
