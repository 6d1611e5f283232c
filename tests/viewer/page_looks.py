"""Looks for tests of the page, made of random numbers that hold together: weights are the softmax of q and k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HOSTILE = "</script><img src=x onerror=window.hacked=1>"
EXPLANATIONS = ["attention", "rollout", "gradient x attention", "occlusion"]


@dataclass
class SyntheticLook:
    """What the page asks of a look: its header, and blocks by name."""

    header: dict[str, Any]
    blocks: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def block(self, name: str) -> np.ndarray:
        if name not in self.kept:
            self.kept[name] = np.ascontiguousarray(self.blocks[name](), dtype="<f4")
        return self.kept[name]


def side(pieces: list[str], specials: tuple[str, ...] = ()) -> dict[str, Any]:
    """A side of word pieces, ## marking those that go on with a word and Ġ a space before one."""
    marked = any(piece.startswith("Ġ") for piece in pieces)
    words, word = [], -1
    for place, piece in enumerate(pieces):
        goes_on = piece.startswith("##") or (marked and place > 0 and not piece.startswith("Ġ") and piece.isalpha())
        word += not goes_on
        words.append(word)
    shown = [piece.removeprefix("##").removeprefix("Ġ") for piece in pieces]
    return {"pieces": pieces, "shown": shown, "words": words, "special": [piece in specials for piece in pieces]}


def attention(
    look: SyntheticLook,
    name: str,
    queries: str,
    keys: str,
    *,
    layers: int,
    heads: int,
    size: int = 8,
    causal: bool = False,
) -> None:
    """Adds an attention whose weights are the softmax of q and k, which look at places a head's own distance away."""
    Q, K = (len(look.header["sides"][one]["pieces"]) for one in (queries, keys))
    self_attention = queries == keys
    about = {
        "heads": heads,
        "queries": Q,
        "keys": K,
        "size": size,
        "score": "scaled-dot",
        "scale": size**-0.5,
        "bias": False,
    }
    modules = [{"module": f"{name}.layers.{layer}.attention", **about} for layer in range(layers)]
    explain = ["token"] if look.header["explanations"] else []
    about = {"name": name, "title": name.capitalize(), "queries": queries, "keys": keys, "causal": causal}
    about |= {"rollout": self_attention, "flow": self_attention, "explain": explain, "layers": modules}
    look.header["attentions"].append(about)
    seed = sum(map(ord, name))

    def vectors(layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        random = np.random.default_rng([seed, layer])
        rates = np.exp(random.uniform(-2.5, 0.6, size=(heads, 1, size // 2)))
        shift = random.integers(-2, 3, size=(heads, 1, 1))
        place = np.arange(K)[None, :, None] * (Q / K if not self_attention else 1)
        turn = lambda at: np.concatenate([np.sin(at * rates), np.cos(at * rates)], axis=-1)  # noqa: E731
        q = turn(np.arange(Q)[None, :, None] + shift) * (2 + 2 * random.random((heads, 1, 1)))
        k = turn(place) + 0.4 * random.standard_normal((heads, K, size))
        return tuple(one.astype(np.float32) for one in (q, k, random.standard_normal((heads, K, size))))  # type: ignore

    def scores(layer: int) -> np.ndarray:
        q, k, _ = vectors(layer)
        score = np.einsum("hqd,hkd->hqk", q, k) * np.float32(size**-0.5)
        return np.where(np.tri(Q, K, dtype=bool), score, -np.inf) if causal else score

    def rolled() -> np.ndarray:
        steps = look.block(f"{name}/mean") / 2 + np.eye(Q) / 2
        return np.stack([np.linalg.multi_dot([*steps[: n + 1][::-1], np.eye(Q)]) for n in range(layers)])

    for layer in range(layers):
        for place, part in enumerate("qkv"):
            look.blocks[f"{name}/{layer}/{part}"] = lambda layer=layer, place=place: vectors(layer)[place]
        look.blocks[f"{name}/{layer}/scores"] = lambda layer=layer: scores(layer)
        look.blocks[f"{name}/{layer}/weights"] = lambda layer=layer: softmax(scores(layer))
    weights = lambda: [look.block(f"{name}/{layer}/weights").mean(0) for layer in range(layers)]  # noqa: E731
    look.blocks[f"{name}/mean"] = lambda: np.stack(weights())
    if self_attention:
        look.blocks[f"{name}/rollout"] = rolled
        look.blocks[f"{name}/flow"] = lambda: softmax(np.log(look.block(f"{name}/rollout")[-1] + 1e-6) / 2)
    for query in range(Q if explain else 0):
        look.blocks[f"{name}/explain/{query}"] = lambda query=query: accounts(query, K)


def accounts(query: int, K: int) -> np.ndarray:
    random = np.random.default_rng(query).standard_normal((4, K))
    random[:2] = np.abs(random[:2])
    return random / np.abs(random).sum(1, keepdims=True)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def states(
    look: SyntheticLook, name: str, on: str, *, layers: int = 1, width: int = 24, backward: bool = False
) -> None:
    parts = ["input", "forget", "candidate", "output", "cell", "state"]
    about = {"name": name, "title": name.replace("-", ", "), "side": on, "cell": "lstm", "backward": backward}
    look.header["states"].append({**about, "parts": parts, "layers": [{"width": width}] * layers})
    T = len(look.header["sides"][on]["pieces"])

    def numbers(layer: int) -> np.ndarray:
        values = np.cumsum(np.random.default_rng([len(name), layer]).standard_normal((6, T, width)), axis=1) / 2
        values[[0, 1, 3]] = 1 / (1 + np.exp(-values[[0, 1, 3]]))
        values[[2, 5]] = np.tanh(values[[2, 5]])
        return values

    for layer in range(layers):
        look.blocks[f"states/{name}/{layer}"] = lambda layer=layer: numbers(layer)


def empty(model: str, kind: str, sides: dict[str, Any], **more: Any) -> SyntheticLook:
    output = {"side": next(reversed(sides)), "predictions": []}
    header = {"format": 1, "model": model, "family": model.split("-")[0], "kind": kind, "notes": [], "sides": sides}
    header |= {"attentions": [], "states": [], "output": output, "explanations": EXPLANATIONS}
    return SyntheticLook({**header, **more})


ENGLISH = ["[CLS]", "the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "too", "tire"]
ENGLISH += ["##d", ";", "play", "##ing", "chess", "was", "easier", ".", "[SEP]"]
BYTES = ["<|endoftext|>", "Once", "Ġupon", "Ġa", "Ġtime", ",", "Ġthere", "Ġwas", "Ġa", "Ġwh", "ale", "Ġwho", "Ġsang"]
BYTES += ["."]
GERMAN = ["ein", "mann", "spiel", "##t", "gitarre", "auf", "einer", "grünen", "wiese", ".", "</s>"]
TRANSLATION = ["a", "man", "is", "play", "##ing", "guitar", "on", "a", "green", "meadow", ".", "</s>"]


def encoder(
    layers: int = 4, heads: int = 8, pieces: list[str] | None = None, model: str = "bert-synthetic"
) -> SyntheticLook:
    look = empty(model, "encoder", {"text": side(pieces or ENGLISH, ("[CLS]", "[SEP]"))})
    attention(look, "encoder", "text", "text", layers=layers, heads=heads)
    return look


def decoder() -> SyntheticLook:
    look = empty("gpt-synthetic", "decoder", {"text": side(BYTES, ("<|endoftext|>",))})
    look.header["output"]["predictions"] = [{"at": 9, "top": [["ale", 0.61], ["ite", 0.2]]}]
    attention(look, "decoder", "text", "text", layers=3, heads=4, causal=True)
    return look


def encoder_decoder() -> SyntheticLook:
    look = empty(
        "marian-synthetic",
        "encoder-decoder",
        {"source": side(GERMAN, ("</s>",)), "target": side(TRANSLATION, ("</s>",))},
    )
    attention(look, "encoder", "source", "source", layers=2, heads=4)
    attention(look, "decoder", "target", "target", layers=2, heads=4, causal=True)
    attention(look, "cross", "target", "source", layers=2, heads=4)
    return look


def recurrent() -> SyntheticLook:
    look = empty("lstm-synthetic", "recurrent", {"text": side(BYTES, ("<|endoftext|>",))}, explanations=[])
    states(look, "forwards", "text", layers=2)
    return look


def alignment() -> SyntheticLook:
    """A recurrent translator: one cross attention of one head, and states."""
    sides = {"source": side(GERMAN, ("</s>",)), "target": side(TRANSLATION, ("</s>",))}
    look = empty("bahdanau-synthetic", "recurrent", sides, explanations=[])
    attention(look, "cross", "target", "source", layers=1, heads=1)
    states(look, "encoder-forward", "source")
    return look


def hostile() -> SyntheticLook:
    look = encoder(layers=2, heads=2, pieces=["[CLS]", HOSTILE, "##" + HOSTILE, "two", "[SEP]"])
    look.header |= {"model": HOSTILE, "family": HOSTILE, "notes": [HOSTILE]}
    look.header["attentions"][0]["title"] = HOSTILE
    look.header["output"]["predictions"] = [{"at": 1, "top": [[HOSTILE, 0.5]]}]
    states(look, "forwards", "text")
    look.header["states"][0]["title"] = HOSTILE
    return look


def large() -> SyntheticLook:
    words = [["the", "cat", "sat", "on", "a", "mat", "##s", "."][place % 8] for place in range(510)]
    return encoder(layers=12, heads=12, pieces=["[CLS]", *words, "[SEP]"], model="bert-large")


LOOKS = {"encoder": encoder, "decoder": decoder, "encoder-decoder": encoder_decoder}
LOOKS |= {"recurrent": recurrent, "alignment": alignment, "hostile": hostile, "large": large}
