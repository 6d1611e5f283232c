"""A loop as one writes it around torch.nn.LSTM, whose kernels are cuDNN's on a GPU: padded, with Luong's attention or
with none.  It reads the batches that regard reads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.contest import Turns
from benchmarks.laps import Laps
from benchmarks.learners import RATE, SHOWN, pairs
from benchmarks.plan import Plan
from regard.models.folder import load_model
from regard.objectives.objective import Batch
from regard.training.ahead import ahead

IGNORED = -100


class Plain(nn.Module):
    """The same weights as regard's translator.  Letters: B rows, S of the longest source, T of the longest target."""

    def __init__(self, model: Any, attends: bool):
        super().__init__()
        self.attends, self.dropout = attends, model.config.dropout
        self.embed, self.out = model.embed.tokens, model.out
        self.encoder, self.decoder, self.join = model.encoder.cells, model.decoder.cells, model.join
        if not attends:
            self.join = nn.Linear(model.join.out_features, model.join.out_features)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:  # (B, S), (B,), (B, T) -> (B, T, V)
        read = pack_padded_sequence(self.embedded(source), lengths, batch_first=True, enforce_sorted=False)
        packed, last = self.encoder(read)
        remembered, _ = pad_packed_sequence(packed, batch_first=True)  # (B, S, W)
        start = tuple(torch.cat([part[0::2], part[1::2]], -1) for part in last)  # both ways side by side
        states, _ = self.decoder(self.embedded(target), start)  # (B, T, W)
        if self.attends:
            scores = states @ remembered.mT  # (B, T, S)
            real = torch.arange(source.shape[1], device=source.device) < lengths.to(source.device)[:, None]
            weights = scores.masked_fill(~real[:, None], -torch.inf).softmax(-1)
            states = torch.cat([weights @ remembered, states], -1)
        return self.out(F.dropout(torch.tanh(self.join(states)), self.dropout, self.training))

    def embedded(self, ids: Tensor) -> Tensor:
        return F.dropout(self.embed(ids), self.dropout, self.training)


def attending(plan: Plan, turns: Turns) -> None:
    learn(plan, turns, attends=True)


def bare(plan: Plan, turns: Turns) -> None:
    """Without attention: what the cells, the words and the optimizer take by themselves."""
    learn(plan, turns, attends=False)


def learn(plan: Plan, turns: Turns, attends: bool) -> None:
    torch.set_num_threads(plan.threads)
    model = Plain(load_model(Path(plan.model)), attends).to(plan.device)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        turns.show([[first_loss(model, plan)]] if attends else [])
    laps = Laps(turns, plan)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.999), weight_decay=0.0, fused=True)
    model.train()
    laps.begin()
    for _, batch in ahead(pairs(plan), count(), partial(padded, on_gpu=plan.on_gpu)):
        with torch.autocast(torch.device(plan.device).type, torch.bfloat16, enabled=plan.on_gpu):
            loss = loss_of(model, batch, plan.device)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if laps.step(batch["tokens"]):
            return


@torch.no_grad()
def first_loss(model: nn.Module, plan: Plan) -> float:
    batch = padded(pairs(replace(plan, budget=SHOWN * plan.longest)).at(0), plan.on_gpu)
    return loss_of(model.eval(), batch, plan.device).item()


def padded(batch: Batch, on_gpu: bool) -> Batch:
    """As a loader's workers make it: rectangles, in memory that a GPU copies from."""
    source, target = batch["source"], batch["target_in"]
    wanted = target.rows.pad(batch["target_out"]).masked_fill(~target.rows.real, IGNORED)
    sides = {"source": source.rows.pad(source.ids), "target": target.rows.pad(target.ids), "wanted": wanted.flatten()}
    there = {name: side.pin_memory() if on_gpu else side for name, side in sides.items()}
    return there | {"lengths": source.rows.lengths, "tokens": source.rows.total + target.rows.total}


def loss_of(model: nn.Module, batch: Batch, device: str) -> Tensor:
    """The mean over target tokens, smoothed as regard's is."""
    source, target, wanted = (batch[name].to(device, non_blocking=True) for name in ("source", "target", "wanted"))
    logits = model(source, batch["lengths"], target)
    return F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=IGNORED, label_smoothing=0.1)
