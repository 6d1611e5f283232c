"""Families that are published elsewhere: their config.json, their names for tensors, the heads their files carry.

What a folder says is read through fixed tables.  A folder is known by the names in its file, since what its config
calls it is not always true: the first BERT's says masked LM and carries the next-sentence head too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.checkpoints.files import Content
from regard.checkpoints.fit import Fit
from regard.checkpoints.rules import Rules
from regard.checkpoints.settings import (
    OwnSettings,
    Settings,
    check_plain,
    is_marked,
    own_fields,
    with_own_fields,
    without_own,
)
from regard.checkpoints.weights import check_weights, set_weights, weights_of
from regard.errors import Problem
from regard.layers.sizes import check_equal
from regard.models.encoder import Encoder, EncoderConfig, Head, HeadedEncoder, NextHead, Role, WordHead, begin

ONLY = {  # settings that would change what an encoder computes, and the one value of each that is understood
    "is_decoder": False,
    "position_embedding_type": "absolute",
    "inner_group_num": 1,
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_activation": "gelu",
}


@dataclass(frozen=True)
class HeadNames:
    """A head by what it is for, and what its parts are called in their files."""

    role: Role
    out: str | None = None
    dense: str | None = None
    activation: str | None = None  # behind dense; None: the blocks'
    pool: str | None = None  # what of a row is asked; None: each token
    bias: bool = True  # of the outputs

    @property
    def rules(self) -> Rules:
        parts = (("dense", self.dense), ("out", self.out))
        return Rules(tuple((f"heads.{self.role}.{ours}", theirs) for ours, theirs in parts if theirs))

    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> Head:
        count = outputs.get(self.out, 1) if self.out else None  # one that is missing is told of with all the others
        activation = (self.activation or config.stack.block.activation) if self.dense else None
        return Head(config.width, activation, count, pool=self.pool, dropout=config.dropout, bias=self.bias)


@dataclass(frozen=True)
class WordHeadNames:
    """The head that scores every word.  Its weights are the embedding's, and stand in some files a second time."""

    dense: str
    norm: str
    bias: str  # the module whose bias it is
    twins: Mapping[str, str]  # second name -> first name
    activation: str | None = None  # None: the blocks'
    role: Role = "masked"
    out = None

    @property
    def rules(self) -> Rules:
        rows = (("heads.masked.dense", self.dense), ("heads.masked.norm", self.norm), ("heads.masked", self.bias))
        return Rules(rows, self.twins)

    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> WordHead:
        return WordHead(config, self.activation)


@dataclass(frozen=True)
class NextHeadNames:
    """The head of a language model, whose weights are the embedding's and stand in some files a second time."""

    twins: Mapping[str, str]  # second name -> first name
    role: Role = "write"
    out = None

    @property
    def rules(self) -> Rules:
        return Rules((), self.twins)

    def make(self, config: EncoderConfig, outputs: Mapping[str, int]) -> NextHead:
        check_equal({"embedding.width": config.embedding.width, "stack.block.width": config.width})
        return NextHead(config.width, config.embedding.vocab)


class SomeHeadNames(Protocol):
    """What a head is called in their files, and how it is made."""

    @property
    def role(self) -> Role: ...

    @property
    def out(self) -> str | None:
        """The layer whose size the task decides."""

    @property
    def rules(self) -> Rules: ...

    def make(self, config: Any, outputs: Mapping[str, int]) -> nn.Module: ...


Heads = tuple[SomeHeadNames, ...]


def rules_of(heads: Heads) -> Rules:
    return sum((head.rules for head in heads), Rules(()))


@dataclass(frozen=True)
class Layout:
    """What a file holds: an encoder and heads, under these names."""

    architecture: str
    rules: Rules
    heads: Heads
    body: Callable[[Any], nn.Module] = Encoder

    def make(self, config: Any, outputs: Mapping[str, int]) -> HeadedEncoder:
        """The module; `outputs` has as many as each last layer of a head has, by its name in their files."""
        return self.with_heads(self.body(config), config, outputs)

    def with_heads(self, encoder: nn.Module, config: Any, outputs: Mapping[str, int]) -> HeadedEncoder:
        return HeadedEncoder(encoder, {head.role: head.make(config, outputs) for head in self.heads})

    @property
    def roles(self) -> set[Role]:
        return {head.role for head in self.heads}


def outputs_of(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The size of each layer, by its name: the rows of its weights."""
    return {name.removesuffix(".weight"): len(t) for name, t in tensors.items() if name.endswith(".weight") and t.dim()}


@dataclass(frozen=True)
class EncoderFamily:
    default: Any  # the config that is meant by a config.json that is silent
    settings: Settings | OwnSettings
    body: Rules
    prefix: str  # of the body's names where there is a head
    heads: Mapping[str, Heads]  # architecture -> its heads; the first is the bare encoder, without a prefix
    others: tuple[Layout, ...] = ()  # what the files of other tools hold
    kind: Callable[[Any], nn.Module] = Encoder  # what is made of a config
    begin: Callable[[nn.Module], None] = begin  # the numbers it begins with
    only: Mapping[str, Any] = field(default_factory=lambda: ONLY)  # settings of which one value is understood

    def rules(self, architecture: str) -> Rules:
        bare = architecture == next(iter(self.heads))
        return (self.body if bare else self.body.under(self.prefix)) + rules_of(self.heads[architecture])

    def layout(self, architecture: str, rules: Rules, heads: Heads) -> Layout:
        return Layout(architecture, rules, heads, self.kind)

    def layouts(self, named: object) -> Iterator[Layout]:
        """What a file may hold, first what it is called.  Many carry a pooler that nothing in them uses, or lack it."""
        bare, pooler = next(iter(self.heads.items()))
        yield from (layout for layout in self.others if [layout.architecture] == named)
        for architecture, heads in sorted(self.heads.items(), key=lambda item: [item[0]] != named):
            rules = self.rules(architecture)
            yield self.layout(architecture, rules, heads)
            if architecture != bare and not rules_of(heads).rows:  # the heads have no numbers of their own
                yield self.layout(architecture, self.body, heads)
            if architecture == bare:
                yield self.layout(bare, rules.under(self.prefix), heads)
                yield self.layout(bare, self.body, ())
                yield self.layout(bare, self.body.under(self.prefix), ())
            else:
                yield self.layout(architecture, rules + rules_of(pooler).under(self.prefix), heads + pooler)
        yield from self.others

    def load(self, theirs: dict[str, Any], tensors: Mapping[str, Tensor], place: Path) -> Published:
        """A model from what a config.json and a file of tensors say."""
        check_plain(theirs, self.only, place)
        config = self.configured(theirs)
        layout, ours = self.recognise(config, tensors, theirs.get("architectures"), place)
        model = layout.make(config, outputs_of(tensors))
        set_weights(model, ours, place)
        constants = layout.rules.constants(tensors)
        twins = {second: first for second, first in layout.rules.tied.items() if second in tensors}
        precision = reduce(torch.promote_types, {tensor.dtype for tensor in ours.values()})
        exceptions = {name: tensor.dtype for name, tensor in ours.items() if tensor.dtype != precision}
        return Published(self, layout, without_own(theirs), model.eval(), constants, twins, precision, exceptions)

    def configured(self, theirs: Mapping[str, Any]) -> Any:
        """The config that a config.json describes."""
        return own_fields(self.settings.load(self.default, theirs), theirs)

    def described(self, config: Any, theirs: Mapping[str, Any], architecture: str) -> dict[str, Any]:
        """The config.json that describes a config, every field of it."""
        said = {**self.settings.save(config, theirs), "architectures": [architecture]}
        return with_own_fields(config, said, self.configured)

    def recognise(
        self, config: Any, tensors: Mapping[str, Tensor], named: object, place: Path
    ) -> tuple[Layout, dict[str, Tensor]]:
        """What a file holds, and its tensors by our names."""
        faults = []
        for layout in self.layouts(named):
            try:
                ours = layout.rules.load(tensors, place)
                with torch.device("meta"):  # nothing is allocated for a config that fits no file
                    check_weights(layout.make(config, outputs_of(tensors)), ours, place)
                return layout, ours
            except Problem as problem:
                faults.append((layout, problem))
        raise self.misfit(config, tensors, faults, place)

    def misfit(
        self, config: Any, tensors: Mapping[str, Tensor], faults: list[tuple[Layout, Problem]], place: Path
    ) -> Problem:
        """What is wrong with a file that fits no layout, by the layout that it fits best."""
        closest: tuple[Layout, Problem, Fit] | None = None
        try:
            with torch.device("meta"):  # one body for all layouts: a config may ask for very many layers
                body = weights_of(HeadedEncoder(faults[0][0].body(config), {}))
        except Problem:  # it is the config that is wrong
            return faults[0][1]
        counted = [(len(layout.rules.load_known(tensors)[1]), layout, problem) for layout, problem in faults]
        for fewest, layout, problem in sorted(counted, key=lambda fault: fault[0]):
            if closest and fewest >= closest[2].faults:  # those that follow have no fewer faults
                break
            with torch.device("meta"):
                heads = layout.with_heads(nn.Identity(), config, outputs_of(tensors))
            fit = Fit.of(body | weights_of(heads), layout.rules, tensors)
            if closest is None or fit.faults < closest[2].faults:
                closest = layout, problem, fit
        if closest is None or not closest[2].faults:
            return closest[1] if closest else faults[0][1]
        layout, _, fit = closest
        return Problem(f"{place}: its tensors fit no model of this family; {layout.architecture} fits best: {fit}")


@dataclass(frozen=True)
class Published:
    """A model with all that is needed to write its folder again."""

    family: EncoderFamily
    layout: Layout
    theirs: dict[str, Any]  # its config.json, what we do not know included
    model: HeadedEncoder
    constants: Mapping[str, Tensor]  # what its file holds that is no weight
    twins: Mapping[str, str]  # tensors that stand in its file twice: second name -> first
    precision: torch.dtype  # of the file; the model's own is float32
    exceptions: Mapping[str, torch.dtype] = field(default_factory=dict)  # our names of tensors in another precision

    def files(self) -> dict[str, Content]:
        """The folder again: the same tensors under the same names in the same precision."""
        settings = self.described()
        weights = weights_of(self.model).items()
        exact = {name: tensor.to(self.exceptions.get(name, self.precision_of(tensor))) for name, tensor in weights}
        tensors = self.layout.rules.save(exact, own_names=is_marked(settings))
        tensors |= {second: tensors[first].clone() for second, first in self.twins.items()}
        return {
            "config.json": (json.dumps(settings, indent=2, sort_keys=True) + "\n").encode(),
            "model.safetensors": tensors | dict(self.constants),
        }

    def precision_of(self, tensor: Tensor) -> torch.dtype:
        """That of the file, but for whole numbers: a bigram's pairs are no floats."""
        return self.precision if tensor.is_floating_point() else tensor.dtype

    def described(self) -> dict[str, Any]:
        """Its config.json."""
        return self.family.described(self.model.encoder.config, self.theirs, self.layout.architecture)

    def check_savable(self) -> Published:
        """Itself, if its folder would give back the same config and tensors: asked before anything is trained."""
        shapes = {name: tensor.to("meta") for name, tensor in weights_of(self.model).items()}
        tensors = self.layout.rules.save(shapes, own_names=is_marked(self.described()))
        check_weights(self.model, self.layout.rules.load(tensors, "the model"), Path("its folder"))
        return self
