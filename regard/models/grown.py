"""A model with room for pieces that came to its vocabulary after it was trained."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.checkpoints.weights import weights_of
from regard.config import change
from regard.models.published import Published, outputs_of


@torch.no_grad()
def grown(published: Published, vocab: int) -> Published:
    """The same with a table of `vocab` rows; those that are new are random."""
    was, rules = weights_of(published.model), published.layout.rules
    config = change(published.model.encoder.config, "embedding.vocab", vocab)
    model = published.layout.make(config, outputs_of(rules.save(was, own_names=True)))
    model.to(next(published.model.parameters()).device)
    for name, tensor in weights_of(model).items():
        tensor[: len(was[name])] = was[name]
    return replace(published, model=model.eval())
