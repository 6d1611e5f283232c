"""What asking something of a model costs: FLOPs of training a token, counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recipes.objectives_plan import SETTINGS, Row
from regard.commands.encoders import new_reader
from regard.commands.language_run import LanguageRun, is_language
from regard.commands.pretraining_run import PretrainingRun
from regard.commands.settings import PRETRAINING
from regard.commands.show import configured, make_model
from regard.config import update
from regard.models import t5
from regard.objectives.objective import Asked
from regard.objectives.spans import Gaps, Spans
from regard.rows import Rows, Tokens
from regard.text.tokenizer import Tokenizer

SOME = 8  # rows to count with


def cost_of(row: Row, objective: str, pieces: Tokenizer) -> float:
    """What torch counts in matrix products of a step on a few rows, forwards and backwards; attention, and recurrent
    layers, which it does not count, by their formulas."""
    torch.manual_seed(0)  # what is hidden is drawn
    asked, batch = question(row, objective, pieces)
    with FlopCounterMode(display=False) as counter:
        asked(asked.prepare(batch)).loss.backward()
    return counter.get_total_flops() / (SOME * SETTINGS["longest"]) + uncounted(asked, SETTINGS["longest"])


def question(row: Row, objective: str, pieces: Tokenizer) -> tuple[Asked, dict[str, Any]]:
    """A model that has learned nothing with what it is asked, and a batch of rows for it."""
    rows = Rows.even(SOME, SETTINGS["longest"])
    tokens = Tokens(torch.randint(110, pieces.size, (rows.total,)), rows)
    batch = {"tokens": tokens, "types": torch.zeros(rows.total, dtype=torch.long), "wanted": tokens.ids.roll(-1)}
    batch["second"] = torch.zeros(SOME, dtype=torch.long)
    if objective == "spans":
        config = configured(row.preset, row.set, t5.PRESETS)
        model = make_model(replace(config, embedding=replace(config.embedding, vocab=pieces.size)))
        return Asked(model, Spans(Gaps(tuple(pieces.sentinels), pieces.begin, pieces.end))), batch
    settings = update(PRETRAINING, {"objective": objective, **SETTINGS})
    kind = LanguageRun if is_language(row.preset, objective) else PretrainingRun
    reader = new_reader(row.preset, pieces, row.set)
    run_of = kind(settings, row.preset, Path(), Path())
    return run_of.asked(reader, reader.published.model.encoder.config, objective.split("+"))[1], batch


def uncounted(asked: nn.Module, longest: int) -> float:
    """FLOPs a token of attention, 12 for each pair of tokens, layer and number of their width; and of recurrent layers,
    six for each weight."""
    blocks: list[Any] = [part for part in asked.modules() if hasattr(part, "attention") and hasattr(part, "feed")]
    attention = sum(12 * longest * block.attention.q.out_features for block in blocks)
    lstm = [part for part in asked.modules() if isinstance(part, nn.RNNBase) or hasattr(part, "weight_hh")]
    return attention + sum(6.0 * p.numel() for part in lstm for p in part.parameters() if p.ndim == 2)
