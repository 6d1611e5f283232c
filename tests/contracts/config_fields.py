"""For the contract over config fields: every family as a tiny model, other values for every field of its config, and
a model that is saved and loaded again in memory."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from loud_models import loud
from torch import Tensor, nn
from watched_models import tiny

from regard.checkpoints.settings import unmarked
from regard.checkpoints.weights import set_weights, weights_of
from regard.config import from_dict, nested, to_dict, update
from regard.layers.characters import spelled_words
from regard.layers.patches import Pictures
from regard.layers.recurrent import RecurrentConfig
from regard.layers.waves import WavesConfig
from regard.models import FAMILIES, HEARERS, PUBLISHED, READERS, SEERS, TRANSLATORS, marian, t5
from regard.models.cove import CoveConfig
from regard.models.heads import new_encoder
from regard.models.published import Published
from regard.rows import Tokens

EVERY_FAMILY = [*PUBLISHED, *FAMILIES, "marian"]
PLACE = Path("memory")
VOCAB = 17
TOKENS = Tokens.of([[5, 3, 8, 2, 7, 9], [4], [6, 3, 10, 2]])
TARGETS = Tokens.of([[1, 0, 0], [1, 1, 0, 1], [1]])  # a target's vocabulary may be as small as two
ROLES = {  # the head that pretraining trains; no entry: the bare encoder
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "distilbert", "albert"), "masked"),
    **dict.fromkeys(("electra", "longformer", "linformer"), "masked"),
    **dict.fromkeys(("openai-gpt", "gpt2", "transformer-xl", "reformer", "bigram", "lstm", "elmo"), "write"),
    **dict.fromkeys(("vit", "deit", "convolutional"), "classify"),
    "context2vec": "masked",
    "wav2vec2": "contrast",
}

# Tiny models of every family


def base(family: str) -> Any:
    """The config whose fields are changed: one that a published config.json describes in full."""
    if family in SEERS:
        return small_picture(PUBLISHED[family].default)
    if family in HEARERS:
        return small_sound(PUBLISHED[family].default)
    if family == "cove":
        words = small(PUBLISHED["lstm"].default).embedding
        return CoveConfig(words, RecurrentConfig("lstm", 16, 2, two_way=True))
    if family == "bigram":
        return update(PUBLISHED[family].default, {"embedding": {"vocab": VOCAB}})
    presets = {"seq2seq": "rnn-general", "transformer": "transformer-tiny", "t5": "t5-tiny"}
    if family in READERS:
        return small(next(iter(READERS[family].PRESETS.values()), PUBLISHED[family].default))
    return small(marian.SILENT if family == "marian" else TRANSLATORS[presets[family]])


def small(config: Any) -> Any:
    """Tiny, of two layers; the size of heads follows from the width where the family has it so."""
    changes: dict[str, Any] = {"stack.layers": 2} if hasattr(config, "stack") else {}
    changes |= {path: None for path, _, value in leaves(config) if path.endswith("attention.size") and value is None}
    changes |= {"kinds": ("local", "lsh")} if hasattr(config, "kinds") else {}
    return update(tiny(config, VOCAB), nested(changes))


def small_picture(config: Any) -> Any:
    if not hasattr(config, "stack"):
        return replace(config, width=16, picture=16)
    stack = {"layers": 2, "block": {"width": 16, "inner": 24, "attention": {"heads": 2}}}
    return update(config, {"embedding": {"width": 16, "size": 4, "picture": 8}, "stack": stack})


def small_sound(config: Any) -> Any:
    waves = WavesConfig((8, 8), (4, 2), (2, 2), "layer", bias=True)
    stack = {"layers": 2, "block": {"width": 16, "inner": 24, "attention": {"heads": 2}}}
    codebook = {"groups": 2, "entries": 4, "width": 8, "compared": 8}
    return update(config, {"waves": waves, "stack": stack, "around": 4, "around_groups": 2, "codebook": codebook})


def build(family: str, config: Any) -> Any:
    """A model as commands build it for training; what cannot be trained or saved is refused here."""
    torch.manual_seed(0)
    if family in PUBLISHED:
        role = "masked" if family == "reformer" and not config.stack.causal else ROLES.get(family)
        published = new_encoder(family, config, {role} if role else ())
        if family != "bigram":  # whose numbers are counts
            loud(published.model)
        return published
    if family == "t5":
        return t5.new(loud(t5.T5(config)), 0, 1)
    if family == "marian":
        return marian.new(loud(marian.Marian(config)), {}, {})
    return loud(FAMILIES[family][1](config))


# Saved and loaded again


def save(made: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config.json and the tensors of its folder."""
    if isinstance(made, nn.Module):  # a translator of a family that only regard has
        return json.loads(json.dumps(to_dict(made.config))), weights_of(made)
    files = made.files()
    return json.loads(files["config.json"]), files["model.safetensors"]


def load(family: str, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    theirs = unmarked(settings)
    if family in PUBLISHED:
        return PUBLISHED[family].load(theirs, tensors, PLACE)
    if family in ("t5", "marian"):
        return {"t5": t5.load, "marian": marian.load}[family](theirs, {}, tensors, PLACE)
    config_kind, model_kind = FAMILIES[family]
    model = model_kind(from_dict(config_kind, settings))
    set_weights(model, tensors, PLACE)
    return model.eval()


def config_of(made: Any) -> Any:
    model = made if isinstance(made, nn.Module) else made.model
    return model.encoder.config if isinstance(made, Published) else model.config


@torch.no_grad()
def outputs(family: str, made: Any) -> list[Tensor]:
    """What a model computes: states, and what its head makes of them."""
    torch.manual_seed(0)  # Reformer draws the directions that it hashes by
    if not isinstance(made, Published):
        model = made if isinstance(made, nn.Module) else made.model
        states = model(TOKENS, TARGETS)
        return [states, model.logits(states)]
    model, config = made.model, config_of(made)
    if family in HEARERS:
        heard = model.encoder.hear(torch.randn(100), [60, 40])
        return [heard.states, model.heads["contrast"].codes(heard.features).vectors]
    if family in SEERS:
        pictures = some_pictures(config)
        return [states := model(pictures), model.scores("classify", states, model.encoder.rows(pictures))]
    if family == "elmo":
        model.encoder.embed.spell(Spelling(config.embedding.longest))
    states = model(TOKENS)
    ways = states.chunk(2, -1) if getattr(config, "way", "") == "both" and "write" in model.heads else [states]
    return [states, *(model.scores(role, way, TOKENS.rows) for role in model.heads for way in ways)]


def some_pictures(config: Any) -> Pictures:
    shape = getattr(config, "embedding", config)
    return Pictures.of([torch.randn(shape.channels, shape.picture, shape.picture) for _ in range(2)])


class Spelling:
    """Words of as many letters as their number."""

    def __init__(self, longest: int):
        self.longest = longest

    def table(self) -> np.ndarray:
        return spelled_words(["a" * number for number in range(VOCAB)], self.longest)


# Fields, and their other values


def leaves(config: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every field of a config that is no config itself: dotted, with its type and its value."""
    hints = typing.get_type_hints(type(config))
    for one in fields(config):
        value = getattr(config, one.name)
        if is_dataclass(value):
            yield from leaves(value, f"{place}{one.name}.")
        else:
            yield f"{place}{one.name}", hints[one.name], value


def others(kind: Any, value: Any) -> list[Any]:
    """Other values of a field, by its type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        plain = next(one for one in arguments if one is not type(None))
        return others(plain, {int: 1, float: 0.0}[plain]) if value is None else [None, *others(plain, value)]
    if origin is typing.Literal:
        return [one for one in arguments if one != value]
    if origin is tuple:
        return [other for other in other_tuples(arguments[0], value) if other != value]
    if kind is bool:
        return [not value]
    if kind is int:
        return [value + 1, 2 * value + 4 * (value < 2)]
    assert kind is float, f"give this contract other values for fields of type {kind}"
    return [0.25 if value != 0.25 else 0.5]


def other_tuples(kind: Any, value: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if not value:
        return [(others(kind, 1)[-1],)]
    return [value[::-1], tuple(others(kind, one)[-1] for one in value), value[:1], value + value]


def together(family: str, config: Any, path: str, value: Any) -> Any:
    """A field changed with those that must agree with it: of the same name, type and value, and the family's own."""
    kind, was = next((kind, was) for one, kind, was in leaves(config) if one == path)
    name = path.rpartition(".")[2]
    alike = [one for one, *rest in leaves(config) if one.rpartition(".")[2] == name and rest == [kind, was]]
    own = BESIDES.get(family, {}).get(path)
    return update(config, nested(own(value) | {path: value} if own else dict.fromkeys(alike, value)))


Besides = Callable[[Any], dict[str, Any]]
LAST: Besides = lambda value: {"recurrent.width": value, "recurrent.last": value}  # noqa: E731
WITHOUT: Besides = lambda value: {  # noqa: E731
    f"{side}.block.attention.{name}": other
    for side in ("encoder", "decoder")
    for name, other in {"project": value, "size": 8}.items()
}
BESIDES: dict[str, dict[str, Besides]] = {  # family -> field -> what else must change for a value of it
    "lstm": {
        "embedding.width": lambda value: {"recurrent.last": value},
        "recurrent.last": lambda value: {"embedding.width": value},
        "recurrent.cells": lambda value: LAST(value - 1) | {"embedding.width": value - 1},
        "recurrent.residual": lambda value: {"recurrent.width": 16},
        "recurrent.projection_clip": lambda value: LAST(16) | {"embedding.width": 16, "recurrent.cells": 24},
    },
    "context2vec": {
        "recurrent.cells": lambda value: LAST(value - 1),
        "recurrent.projection_clip": lambda value: LAST(16) | {"recurrent.cells": 24},
        "recurrent.residual": lambda value: {"recurrent.width": 16},
    },
    "elmo": {
        "recurrent.cell": lambda value: {"recurrent.cells": None},
        "recurrent.width": lambda value: LAST(value) | {"recurrent.cells": 2 * value},
        "recurrent.last": lambda value: LAST(value) | {"recurrent.cells": 2 * value},
    },
    "seq2seq": {"attention.size": lambda value: {"attention.project": True}},
    "t5": {f"{side}.block.attention.project": WITHOUT for side in ("encoder", "decoder")},
    "reformer": {
        "stack.layers": lambda value: {"kinds": ("lsh",) * value},
        "embedding.width": lambda value: {"stack.block.width": value, "axis_widths": (6, value - 6)},
        "stack.block.attention.project": lambda value: {"stack.block.attention.size": 8},
        "local.after": lambda value: {"stack.causal": False},
        "lsh.after": lambda value: {"stack.causal": False},
    },
}
