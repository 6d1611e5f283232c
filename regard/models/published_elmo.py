"""ELMo as its authors publish it (bilm-tf): an options.json, and the arrays of a TensorFlow model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.config import from_dict, to_dict
from regard.errors import Problem, UsageProblem
from regard.layers.characters import BEGIN, CODES, END, NOTHING, SPECIAL
from regard.models.elmo import ElmoConfig

FORGET = 1.0  # TensorFlow adds it to the forget gate; here it is part of the bias
CHARACTERS = 262  # theirs, with a padding that is no character
SPECIALS = {"<unk>": None, "<s>": 256, "</s>": 257}  # in the order of the tokenizer; their character of each
WORDS = {BEGIN: 258, END: 259, NOTHING: 260}  # ours: theirs


def elmo_config(options: Mapping[str, Any], vocab: int, place: object) -> ElmoConfig:
    """The config that their options mean."""
    try:
        lstm, characters = options["lstm"], options["char_cnn"]
        width, cells = lstm["projection_dim"], lstm["dim"]
        if characters["n_characters"] != CHARACTERS:
            raise Problem(f"{place}: n_characters is {characters['n_characters']}, and {CHARACTERS} can be read here")
        filters = [tuple(pair) for pair in characters["filters"]]
        if (sizes := [size for size, _ in filters]) != list(range(1, len(filters) + 1)):
            raise Problem(f"{place}: filters are over {sizes} characters, and only those over 1, 2, 3, ... can be read")
        embedding = {
            "vocab": vocab, "width": width, "size": characters["embedding"]["dim"],
            "filters": [count for _, count in filters], "longest": characters["max_characters_per_token"],
            "highways": characters.get("n_highway") or 0, "activation": characters.get("activation", "relu"),
        }  # fmt: skip
        recurrent = {
            "cell": "lstm", "width": width, "last": width, "layers": lstm["n_layers"],
            "cells": cells if cells > width else None, "residual": bool(lstm.get("use_skip_connections")),
            "cell_clip": lstm.get("cell_clip"), "projection_clip": lstm.get("proj_clip") if cells > width else None,
        }  # fmt: skip
        return from_dict(ElmoConfig, {"embedding": embedding, "recurrent": recurrent})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Problem(f"{place} is not the options.json of an ELMo that reads characters ({error!r})") from None
    except UsageProblem as problem:
        raise Problem(f"{place}: {problem}") from None


def elmo_weights(config: ElmoConfig, theirs: Mapping[str, Tensor], place: object) -> dict[str, Tensor]:
    """Their arrays by our names; every one of them is used."""
    arrays = Arrays(theirs, place)
    ours = dict(embedding_weights(config, arrays))
    for way in range(2):
        for layer in range(config.recurrent.layers):
            prefix = f"encoder.ways.{way}.layers.{layer}.cells."
            cell = lstm_weights(config, arrays, f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/")
            ours |= {prefix + name: tensor for name, tensor in cell}
    arrays.check_used()
    return ours


class Arrays:
    """The arrays of a file, and which of them have been taken."""

    def __init__(self, theirs: Mapping[str, Tensor], place: object):
        self.theirs, self.place, self.left = theirs, place, dict.fromkeys(theirs)

    def take(self, name: str, *shape: int) -> Tensor:
        if name not in self.theirs:
            raise Problem(f"{self.place}: {name} is missing")
        if list(self.theirs[name].shape) != [*shape]:
            raise Problem(f"{self.place}: {name} is {list(self.theirs[name].shape)}, and by its options {[*shape]}")
        self.left.pop(name, None)
        return self.theirs[name]

    def check_used(self) -> None:
        if self.left:
            names = ", ".join(list(self.left)[:6]) + (", ..." if len(self.left) > 6 else "")
            raise Problem(
                f"{self.place}: {len(self.left)} arrays are too many: {names}. Leave them out by name: --ignore-tensors"
            )


def embedding_weights(config: ElmoConfig, arrays: Arrays) -> Iterator[tuple[str, Tensor]]:
    place, embedding = "encoder.embed.", config.embedding
    yield f"{place}tokens.weight", character_table(arrays.take("char_embed", CHARACTERS - 1, embedding.size))
    for number, count in enumerate(embedding.filters):
        weight = arrays.take(f"CNN/W_cnn_{number}", 1, number + 1, embedding.size, count)
        yield f"{place}filters.{number}.weight", weight[0].permute(2, 1, 0).contiguous()  # (count, size, number + 1)
        yield f"{place}filters.{number}.bias", arrays.take(f"CNN/b_cnn_{number}", count)
    total = sum(embedding.filters)
    for number in range(embedding.highways):
        for ours, theirs in (("gate", "carry"), ("change", "transform")):
            weight = arrays.take(f"CNN_high_{number}/W_{theirs}", total, total)
            yield f"{place}highways.{number}.{ours}.weight", weight.T.contiguous()
            yield f"{place}highways.{number}.{ours}.bias", arrays.take(f"CNN_high_{number}/b_{theirs}", total)
    if total == embedding.width:  # they have no projection then, which is one that changes nothing
        yield from ((f"{place}project.weight", torch.eye(total)), (f"{place}project.bias", torch.zeros(total)))
    else:
        yield f"{place}project.weight", arrays.take("CNN_proj/W_proj", total, embedding.width).T.contiguous()
        yield f"{place}project.bias", arrays.take("CNN_proj/b_proj", embedding.width)


def character_table(theirs: Tensor) -> Tensor:  # (261, size) -> (CODES, size)
    """Bytes stay; special characters have other numbers here.  Those that theirs lacks stand for no text: zeros."""
    table = theirs.new_zeros(CODES, theirs.shape[1])
    table[:256] = theirs[:256]
    special = {SPECIAL + number: code for number, code in enumerate(SPECIALS.values()) if code is not None}
    for ours, code in (WORDS | special).items():
        table[ours] = theirs[code]
    return table


def lstm_weights(config: ElmoConfig, arrays: Arrays, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Their one kernel reads the input and the state, (in + W, 4 C), for the gates input, candidate, forget, output;
    here the order is input, forget, candidate, output."""
    width, cells = config.recurrent.width, config.recurrent.cells or config.recurrent.width
    kernel = arrays.take(f"{prefix}W_0", 2 * width, 4 * cells).T  # (4 C, in + W)
    i, g, f, o = kernel.chunk(4)
    weight = torch.cat([i, f, g, o])
    i, g, f, o = arrays.take(f"{prefix}B", 4 * cells).chunk(4)
    yield "weight_ih_l0", weight[:, :width].contiguous()
    yield "weight_hh_l0", weight[:, width:].contiguous()
    yield "bias_ih_l0", torch.cat([i, f + FORGET, g, o])
    yield "bias_hh_l0", torch.zeros(4 * cells)  # torch has two
    if config.recurrent.cells:
        yield "weight_hr_l0", arrays.take(f"{prefix}W_P_0", cells, width).T.contiguous()


def elmo_settings(config: ElmoConfig) -> dict[str, Any]:
    """The config.json of the model."""
    return {"model_type": "elmo", "architectures": ["ElmoModel"], **to_dict(config)}
