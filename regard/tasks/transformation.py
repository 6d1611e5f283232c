"""A language model made ready for a task by transforming what it reads (Radford et al., 2018), not the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.data.framed import Framed
from regard.errors import UsageProblem
from regard.models.encoder import Encoder
from regard.models.grown import grown
from regard.objectives.objective import Objective
from regard.objectives.with_language import WithLanguage
from regard.tasks.reader import Reader
from regard.text.transformed import TOKENS, padding_of, transformed

WEIGHT = 0.5  # of language modelling beside a task, in the paper
PADDING = "pad_token_id"  # by which others find a row's last token


def is_causal(model: Any) -> bool:
    """Whether it is GPT's kind: a stack in which no token sees what follows it."""
    return isinstance(model.encoder, Encoder) and model.encoder.config.stack.causal


def with_language(task: Objective, model: Any, weight: float | None = None) -> Objective:
    """A task, with language modelling of its texts beside it where a model of GPT's kind learns it."""
    if weight and not is_causal(model):
        raise UsageProblem(f"language weight {weight}: only a model of GPT's kind tells its texts word by word")
    weight = (WEIGHT if is_causal(model) else 0.0) if weight is None else weight
    return WithLanguage(task, weight) if weight else task


def made_ready(reader: Reader) -> tuple[Reader, list[str]]:
    """A reader whose texts have a frame, and what is new in it: nothing, but for a language model without one."""
    frame = reader.tokenizer.frame
    if not is_causal(reader.model) or frame.around(2):
        return reader, []
    tokenizer = transformed(reader.tokenizer)
    published = grown(reader.published, max(tokenizer.size, reader.model.encoder.config.embedding.vocab))
    padding = padding_of(tokenizer)
    told = {} if padding is None else {PADDING: tokenizer.special(padding)}
    published = replace(published, theirs={**published.theirs, **told})
    return Reader(published, tokenizer, reader.pooling), [f"the embeddings of {', '.join(TOKENS)}"]


def in_both_orders(reader: Reader, texts: Sequence[tuple[str, ...]]) -> tuple[Framed, np.ndarray]:
    """Pairs of which neither text comes first, each as two rows; and from which row to which each input reaches."""
    turned = [row for given in texts for row in ((given, given[::-1]) if len(given) == 2 else (given,))]
    return reader.framed(turned), np.cumsum([0, *(len(given) for given in texts)], dtype=np.int64)
