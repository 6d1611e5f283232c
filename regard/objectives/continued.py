"""Texts that go on from a prompt: where their written tokens are told, and how probable a model finds them.

Letters: B texts, N tokens that are read, M tokens that were written, W width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.objectives.objective import Batch
from regard.rows import Rows, Tokens


def continued(prompts: Sequence[Sequence[int]], written: Sequence[Sequence[int]]) -> Batch:
    """What is read of each text, `tokens`, all but the last one, which is told and not read; the tokens that were
    written, `words`, (M,); and the rows these form, `written`."""
    rows = [[*before, *after[:-1]] for before, after in zip(prompts, written, strict=True)]
    words = torch.tensor([word for after in written for word in after], dtype=torch.long)
    return {"tokens": Tokens.of(rows), "words": words, "written": Rows.of([len(after) for after in written])}


def taken(batch: Batch, chosen: Tensor) -> Batch:
    """The same of the chosen texts, (b,).  What else there is has an entry for each text, or for each written token."""
    tokens, written = batch["tokens"], batch["written"]
    read, rows = tokens.rows.tokens_of(chosen)
    places, some = written.tokens_of(chosen)
    found: Batch = {"tokens": Tokens(tokens.ids[read], rows), "written": some}
    for name, values in batch.items():
        if isinstance(values, Tensor):
            found[name] = values[places if len(values) == written.total else chosen]
    return found


def told(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:  # (M, W), (M, V)
    """The states that tell the written tokens, and what they make of every token."""
    states, _ = model.read(batch["tokens"])
    states = states[places(batch["tokens"].rows, batch["written"])]
    return states, model.logits(states).float()


def places(rows: Rows, written: Rows) -> Tensor:  # (M,)
    """Where the states lie that tell the written tokens: the last ones of each row that is read."""
    return (rows.last - written.last)[written.row] + torch.arange(written.total, device=written.offsets.device)


def log_probabilities(logits: Tensor, words: Tensor) -> Tensor:  # (M, V), (M,) -> (M,)
    return logits.log_softmax(-1).gather(-1, words[:, None]).squeeze(-1)


def summed(values: Tensor, rows: Rows) -> Tensor:  # (M,) -> (B,)
    return values.new_zeros(len(rows)).index_add(0, rows.row, values)
