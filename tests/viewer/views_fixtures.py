"""Looks for tests of the views of single numbers: other scores, biases, cells, and the same text read by two models."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from page_fixtures import settle
from page_looks import BYTES, ENGLISH, HOSTILE, SyntheticLook, attention, empty, encoder, side, softmax, states

PARTS = {
    "vanilla": ["state"],
    "gru": ["reset", "update", "candidate", "state"],
    "lstm": ["input", "forget", "candidate", "output", "cell", "state"],
}


def wide() -> SyntheticLook:
    """An encoder with heads of the usual size."""
    look = empty("bert-of-64", "encoder", {"text": side(ENGLISH, ("[CLS]", "[SEP]"))})
    attention(look, "encoder", "text", "text", layers=2, heads=4, size=64)
    return look


def biased() -> SyntheticLook:
    """As T5: scores are not scaled, and a number for each distance is added."""
    look = empty("t5-synthetic", "encoder", {"text": side(ENGLISH, ("[CLS]", "[SEP]"))})
    attention(look, "encoder", "text", "text", layers=1, heads=2, size=16)
    layer = look.header["attentions"][0]["layers"][0]
    layer |= {"score": "dot", "scale": 1.0, "bias": True}
    apart = np.abs(np.subtract.outer(np.arange(len(ENGLISH)), np.arange(len(ENGLISH))))
    bias = (-np.log1p(apart) * np.array([0.5, 2.0])[:, None, None]).astype(np.float32)
    q, k = (look.block(f"encoder/0/{part}") for part in "qk")
    scores = (np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) + bias).astype(np.float32)
    return with_blocks(look, "encoder/0/", bias=bias, scores=scores, weights=softmax(scores.astype(float)))


def scored(name: str, size: int = 12) -> SyntheticLook:
    """A recurrent translator whose score is no inner product."""
    sides = {"source": side(["ein", "mann", "spielt", "."]), "target": side(["a", "man", "is", "playing", "."])}
    look = empty(f"{name}-synthetic", "recurrent", sides, explanations=[])
    attention(look, "cross", "target", "source", layers=1, heads=1, size=size)
    look.header["attentions"][0]["layers"][0] |= {"score": name, "scale": 1.0}
    random = np.random.default_rng(5)
    if name == "additive":
        q, k = look.block("cross/0/q"), look.block("cross/0/k")
        scores = np.tanh(q[:, :, None] + k[:, None]) @ random.standard_normal(size)
    else:
        q = random.standard_normal((1, 5, 40))
        scores = q[:, :, :4]
    return with_blocks(look, "cross/0/", q=q, scores=scores, weights=softmax(scores))


def with_blocks(look: SyntheticLook, prefix: str, **blocks: np.ndarray) -> SyntheticLook:
    for name, array in blocks.items():
        look.blocks[prefix + name] = lambda array=array: array
        look.kept.pop(prefix + name, None)
    return look


def wrong() -> SyntheticLook:
    """Weights that do not come of their q and k."""
    look = wide()
    look.header["model"] = "wrong"
    return with_blocks(look, "encoder/0/", weights=np.full((4, len(ENGLISH), len(ENGLISH)), 1 / len(ENGLISH)))


def cell(kind: str, *, width: int = 20, projected: int | None = None, backward: bool = False) -> SyntheticLook:
    look = empty(f"{kind}-synthetic", "recurrent", {"text": side(BYTES, ("<|endoftext|>",))}, explanations=[])
    states(look, "way", "text", width=width, backward=backward)
    about: dict[str, Any] = look.header["states"][0]
    about |= {"cell": kind, "parts": PARTS[kind], "layers": [{"width": width}]}
    whole = look.block("states/way/0")
    kept = np.stack([whole[PARTS["lstm"].index(GATE_OF.get(part, part))] for part in PARTS[kind]])
    if projected:
        about["layers"][0]["projected"] = projected
        kept[-1, :, projected:] = 0
    return with_blocks(look, "states/way/", **{"0": kept})


GATE_OF = {"reset": "input", "update": "forget"}


def dangerous() -> SyntheticLook:
    """A recurrence over hostile text, with a hostile title."""
    look = empty(HOSTILE, "recurrent", {"text": side(["a", HOSTILE, "b"])}, explanations=[])
    states(look, "way", "text", width=4)
    look.header["states"][0]["title"] = HOSTILE
    return look


def without(part: str) -> SyntheticLook:
    """An encoder of which a part cannot be had."""
    look = wide()
    look.header["model"] = f"without {part}"
    del look.blocks[f"encoder/0/{part}"]
    return look


def given() -> SyntheticLook:
    """Somebody's plain weights, of which nothing else is known."""
    look = encoder(layers=1, heads=2)
    look.header |= {"model": "given", "explanations": []}
    look.header["attentions"][0]["layers"][0] |= {"size": 0, "score": "given", "scale": 1.0}
    look.blocks = {name: block for name, block in look.blocks.items() if name.endswith("weights")}
    return look


def other() -> SyntheticLook:
    """Another model on the encoder's text, with pieces of the same number."""
    look = encoder(layers=2, heads=3)
    look.header["model"] = "bert-other"
    return look


LOOKS = {"wide": wide, "biased": biased, "wrong": wrong, "given": given, "other": other}
LOOKS |= {"additive": lambda: scored("additive"), "location": lambda: scored("location")}
LOOKS |= {"gru": lambda: cell("gru"), "vanilla": lambda: cell("vanilla", backward=True)}
LOOKS |= {"projected": lambda: cell("lstm", projected=6), "dangerous": dangerous, "without": lambda: without("v")}


# ---- what a test reads and chooses ----------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number as the page writes it."""
    text = text.strip().replace("−", "-")
    if text == "-∞":
        return -np.inf
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    digits, _, power = text.partition("·10")
    return float(digits) * 10.0 ** int(power.translate(raised) or 0)


def numbers(text: str) -> list[float]:
    """All that have digits behind a point."""
    return [number(one) for one in re.findall(r"−?\d+\.\d+(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?", text)]


def choose(page: Any, label: str, value: Any) -> None:
    """Chooses in the view, and waits until it is drawn, by itself or by the page."""
    page.locator(f'#stage [data-key="choose {label}"]').select_option(str(value))
    settle(page)
    page.wait_for_selector("#stage > .view:not([aria-busy])")
