"""What is chosen of a Look to be shown: one of its attentions, layers and heads, in one of the views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import urlencode

from regard.errors import Problem, UsageProblem

ViewName = Literal["matrix", "heads", "grid", "rollout", "picture"]


@dataclass(frozen=True)
class View:
    """Layers and heads are counted from 1, as on the page; in blocks they are counted from 0."""

    name: ViewName = "matrix"
    attention: str | None = None  # by default the one from target to source, or else the first
    layer: int | None = None  # by default all of them, in their mean; for `heads` and `rollout` the last
    head: int | None = None  # by default all of them
    words: bool | None = None  # or pieces; by default words in pictures, and pieces on the page

    def __post_init__(self) -> None:
        if self.name not in get_args(ViewName):
            raise UsageProblem(f"no view is called {self.name!r}; there are: {', '.join(get_args(ViewName))}")
        if self.head is not None and self.layer is None:
            raise UsageProblem(f"head {self.head} of which layer? Say it by --layer")

    def hash(self) -> str:
        """What was chosen, as the page's address has it."""
        unit = None if self.words is None else "words" if self.words else "pieces"
        name = None if self.name == View.name else self.name
        layer, head = (None if number is None else number - 1 for number in (self.layer, self.head))
        found = {"view": name, "attention": self.attention, "layer": layer, "unit": unit, "heads": head}
        return urlencode({key: value for key, value in found.items() if value is not None})

    def attention_of(self, header: dict[str, Any]) -> dict[str, Any]:
        """The attention that is shown, by what a Look tells of it; the layer and the head are there."""
        there = {one["name"]: one for one in header["attentions"]}
        if not there:
            raise Problem(
                f"{header['model']} has no attention to draw; the page shows its states: -o view.html, or without -o"
            )
        if self.name == "rollout":
            there = {name: one for name, one in there.items() if one["rollout"]}
            if not there:
                raise Problem(f"{header['model']} has no self attention, and so no rollout; choose another view")
        if self.name == "picture":
            there = {name: one for name, one in there.items() if one["keys"] in header.get("pictures", {})}
            if not there:
                raise Problem(f"{header['model']} was shown a text and no picture; choose another view")
        name = self.attention or ("cross" if "cross" in there else next(iter(there)))
        if name not in there:
            raise UsageProblem(f"no attention {name!r} can be shown as {self.name}; there are: {', '.join(there)}")
        self._check(there[name])
        return there[name]

    def _check(self, attention: dict[str, Any]) -> None:
        layers = attention["layers"]
        if self.layer is not None and not 1 <= self.layer <= len(layers):
            raise UsageProblem(f"{attention['name']} has no layer {self.layer}; it has 1 to {len(layers)}")
        if self.layer is not None and self.head is not None:
            heads = layers[self.layer - 1]["heads"]
            if not 1 <= self.head <= heads:
                raise UsageProblem(f"layer {self.layer} has no head {self.head}; it has 1 to {heads}")
