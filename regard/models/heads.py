"""An encoder with the heads that a task needs: a new one of a preset, or one that was trained, with other heads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.weights import set_weights, weights_of
from regard.errors import UsageProblem
from regard.layers.host_memory import check_model
from regard.models import PUBLISHED
from regard.models.encoder import EncoderConfig, Role
from regard.models.published import EncoderFamily, Layout, Published

OUTPUTS: dict[Role, int] = {"next": 2, "replaced": 1, "choose": 1, "answer": 2}  # where the task does not decide


def new_encoder(family: str, config: EncoderConfig, roles: Collection[Role], outputs: int = 2) -> Published:
    """An encoder that has learned nothing yet, with heads for these roles; one head may have `outputs` answers."""
    layout = layout_for(PUBLISHED[family], family, roles)
    check_model(lambda: layout.make(config, head_sizes(layout, outputs)))
    model = layout.make(config, head_sizes(layout, outputs))
    PUBLISHED[family].begin(model)
    made = Published(PUBLISHED[family], layout, {"model_type": family}, model.eval(), {}, {}, torch.float32)
    return made.check_savable()


def with_heads(
    published: Published,
    roles: Collection[Role],
    outputs: int = 2,
    *,
    config: EncoderConfig | None = None,
    settings: Mapping[str, Any] = {},
    same: bool = True,
) -> tuple[Published, list[str]]:
    """The same encoder with heads for these roles, and the names of tensors that are new.

    What its file already has under a name stays (BERT's pooler serves most heads).  Scores whose answers now mean
    something else (not `same`) are new too.  `config` may ask for another dropout, `settings` are for its config.json.
    """
    family, config = published.family, config or published.model.encoder.config
    layout = layout_for(family, str(published.theirs.get("model_type")), roles)
    model = layout.make(config, head_sizes(layout, outputs)).to(next(published.model.parameters()).device)
    family.begin(model.heads)
    wanted, known = layout.rules.save(weights_of(model), own_names=True), named(published)
    other = () if same else tuple(f"{head.out}." for head in layout.heads if head.out)
    fresh = sorted(
        name for name, tensor in wanted.items()
        if name not in known or known[name].shape != tensor.shape or name.startswith(other)
    )  # fmt: skip
    place = Path(f"the {layout.architecture}")
    set_weights(model, layout.rules.load(wanted | {n: known[n] for n in wanted if n not in fresh}, place), place)
    theirs = {**published.theirs, **settings}
    return Published(family, layout, theirs, model.eval(), {}, {}, torch.float32).check_savable(), fresh


def named(published: Published) -> dict[str, Tensor]:
    """Its tensors by their names, as they are where there is a head."""
    family, layout, weights = published.family, published.layout, weights_of(published.model)
    tensors = layout.rules.save(weights, own_names=True)
    if not layout.rules.rows[0][1].startswith(family.prefix):
        tensors = {family.prefix + name: tensor for name, tensor in tensors.items()}
    body = {name: tensor for name, tensor in weights.items() if name.startswith("encoder.")}
    whole = family.body.under(family.prefix).save(body, own_names=True)
    return tensors | whole  # GPT's words are the head's in some files


def layout_for(family: EncoderFamily, name: str, roles: Collection[Role]) -> Layout:
    """The architecture of a family that has these heads and no others, but perhaps one that writes by the embedding."""
    layouts = [family.layout(one, family.rules(one), heads) for one, heads in family.heads.items()]
    for layout in layouts:
        if set(roles) <= layout.roles <= {*roles, "write"}:
            return layout
    there = "; ".join(" and ".join(sorted(layout.roles)) for layout in layouts if layout.roles)
    raise UsageProblem(f"no {name} has heads for {' and '.join(sorted(roles))}; there are: {there}")


def head_sizes(layout: Layout, outputs: int) -> dict[str, int]:
    return {head.out: OUTPUTS.get(head.role, outputs) for head in layout.heads if head.out}
