"""Translators that are published elsewhere: all that is needed to write their folders again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.checkpoints.files import WEIGHTS, Content
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import check_plain, is_marked, own_fields, with_own_fields
from regard.checkpoints.weights import check_weights, set_weights, weights_of
from regard.errors import Problem
from regard.models.transformer import Transformer

CONFIG, GENERATION = "config.json", "generation_config.json"
ONLY_WRITTEN = {  # settings of which tokens a translation has, whatever the search; none is understood
    "forced_bos_token_id": None,
    "forced_decoder_ids": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
T = TypeVar("T", bound=Transformer)


@dataclass(frozen=True)
class PublishedTranslator:
    """A model with all that is needed to write its folder again."""

    model: Transformer
    theirs: dict[str, Any]  # its config.json, what we do not know included, without the fields of our own
    generation: dict[str, Any]  # its generation_config.json, empty where there is none
    rules: Rules
    constants: Mapping[str, Tensor]  # what its file holds that is no weight
    precisions: Mapping[str, torch.dtype]  # of every tensor in its file; the model's own is float32
    configured: Callable[[dict[str, Any]], Any]  # the config that the published keys of a config.json describe
    writes_padding: bool = False  # may it write again the token that it begins with?

    @property
    def longest(self) -> int | None:
        """How many tokens a translation may have, its end counted; they count the first one too.  None: nobody says."""
        said, embedding = (self.theirs | self.generation).get("max_length"), self.model.config.embedding
        if said is None:
            return None if embedding.positions == "none" else embedding.longest
        return said - 1

    def check_ids(self, begin: int, end: int, place: Path) -> None:
        """Whether it writes as its vocabulary says: from padding to the end."""
        said = self.theirs | self.generation
        wanted = {
            "decoder_start_token_id": begin,
            "pad_token_id": begin,
            "bad_words_ids": [[begin]],
            "eos_token_id": end,
        }
        for key, value in wanted.items():
            if said.get(key) not in (None, value):
                raise Problem(f"{place}: {key} is {said[key]!r} in its config, and by its vocabulary {value!r}")

    def files(self) -> dict[str, Content]:
        """The folder again: the same tensors under the same names in the same precision."""
        settings = self.described()
        named = self.rules.save(weights_of(self.model), own_names=is_marked(settings))
        twins = {second: first for second, first in self.rules.tied.items() if second in self.precisions}
        named |= {second: named[first].clone() for second, first in twins.items()} | dict(self.constants)
        tensors = {name: tensor.to(self.precisions.get(name, tensor.dtype)) for name, tensor in named.items()}
        texts = {CONFIG: settings} | ({GENERATION: self.generation} if self.generation else {})
        written = {name: json.dumps(text, indent=2, sort_keys=True) + "\n" for name, text in texts.items()}
        return {**{name: text.encode() for name, text in written.items()}, WEIGHTS: tensors}

    def described(self) -> dict[str, Any]:
        """Its config.json, which describes every field of the model's config."""
        return with_own_fields(self.model.config, self.theirs, lambda said: own_fields(self.configured(said), said))

    def check_savable(self) -> PublishedTranslator:
        """Itself, if its folder would give back the same config and tensors: asked before anything is trained."""
        shapes = {name: tensor.to("meta") for name, tensor in weights_of(self.model).items()}
        tensors = self.rules.save(shapes, own_names=is_marked(self.described()))
        check_weights(self.model, self.rules.load(tensors, "the model"), Path("its folder"))
        return self


def filled(kind: type[T], config: Any, rules: Rules, tensors: Mapping[str, Tensor], place: Path) -> T:
    """A model of this config, with the numbers of a file."""
    ours = rules.load(tensors, place)
    with torch.device("meta"):  # nothing is allocated for a config that fits no file
        check_weights(kind(config), ours, place)
    model = kind(config)
    set_weights(model, ours, place)
    return model.eval()


def one_table(tensors: Mapping[str, Tensor], names: Sequence[str]) -> Rules:
    """Where the words are, if all parts share one table: by any one of these names in a file, or by several."""
    first = next((name for name in names if f"{name}.weight" in tensors), names[0])
    twins = {f"{other}.weight": f"{first}.weight" for other in names if other != first}
    return Rules((("embed.tokens", first),), twins)


def check_generation(theirs: Mapping[str, Any], generation: Mapping[str, Any], place: Path) -> None:
    """Refuse what would have others write otherwise than is done here, and lengths that cannot be."""
    for file, said in {CONFIG: theirs, GENERATION: generation}.items():
        check_plain(said, ONLY_WRITTEN, place, file)
    longest = {**theirs, **generation}.get("max_length")
    if longest is not None and (type(longest) is not int or longest < 2):
        raise Problem(f"{place}: max_length is {longest!r} in its config; it must be a whole number from 2 upwards")
