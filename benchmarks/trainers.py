"""The reference library, pretraining with its Trainer and its collator: each batch is padded to its longest row."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar

from benchmarks.contest import Turns
from benchmarks.laps import Laps
from benchmarks.learners import MOST, RATE, batches_of, question
from benchmarks.plan import Plan
from benchmarks.trainer import configured
from regard.data.pretraining import CorpusBatches
from regard.objectives.objective import Batch
from regard.text.published import load_tokenizer

MODELS = {"masked": AutoModelForMaskedLM, "next": AutoModelForCausalLM}

Row = dict[str, list[int]]  # input_ids


def pretrain(plan: Plan, turns: Turns) -> None:
    torch.set_num_threads(plan.threads)
    disable_progress_bar()
    model = MODELS[plan.objective].from_pretrained(plan.model, config=configured(plan)).to(plan.device)
    turns.show([[loss_of(model, question(plan, load_tokenizer(Path(plan.model))))]])
    collate = Counted(plan)
    with tempfile.TemporaryDirectory() as folder:
        timed = Timed(Laps(turns, plan), collate.counts)
        trainer = Trainer(
            model, arguments(plan, folder), data_collator=collate, train_dataset=rows_of(plan), callbacks=[timed]
        )
        trainer.train()


@torch.no_grad()
def loss_of(model: Any, batch: Batch) -> float:
    """The mean of the same question, asked in padded rows."""
    model.eval()
    tokens, real = batch["tokens"], batch["tokens"].rows.real
    padded = {"input_ids": tokens.rows.pad(tokens.ids), "attention_mask": real.long()}
    logits = model(**{name: part.to(model.device) for name, part in padded.items()}).logits[real.to(model.device)]
    if "wanted" in batch:
        return F.cross_entropy(logits, batch["wanted"].to(model.device)).item()
    return F.cross_entropy(logits[batch["places"].to(model.device)], batch["words"].to(model.device)).item()


def rows_of(plan: Plan) -> list[Row]:
    """The same rows as regard has."""
    batches = batches_of(plan, tokenizer := load_tokenizer(Path(plan.model)))
    corpus, frame = batches.corpus, tokenizer.frame
    if isinstance(batches, CorpusBatches):
        return [{"input_ids": frame.row(corpus.ids(*part).tolist())[0]} for part in batches.stretches.tolist()]
    firsts = range(0, batches.count * plan.longest, plan.longest)
    return [{"input_ids": corpus.ids(at, at + plan.longest).tolist()} for at in firsts]


class Counted:
    """The collator of the library, which hides tokens or shifts them; beside it, how many real tokens a batch has."""

    def __init__(self, plan: Plan):
        tokenizer = AutoTokenizer.from_pretrained(plan.model)
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        self.counts: deque[int] = deque()
        self.collate = DataCollatorForLanguageModeling(tokenizer, mlm=plan.objective == "masked")

    def __call__(self, rows: list[Row]) -> dict[str, torch.Tensor]:
        self.counts.append(sum(len(row["input_ids"]) for row in rows))
        return self.collate(rows)


def arguments(plan: Plan, folder: str) -> TrainingArguments:
    """The defaults, in the precision of the contest; it neither saves nor reports."""
    return TrainingArguments(
        folder, max_steps=MOST, per_device_train_batch_size=plan.batch, learning_rate=RATE,
        lr_scheduler_type="constant", bf16=plan.on_gpu, use_cpu=not plan.on_gpu, seed=plan.seed,
        torch_compile=plan.launch == "compiled",
        train_sampling_strategy="group_by_length" if plan.grouped else "random", dataloader_drop_last=True,
        save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip


class Timed(TrainerCallback):
    """Is told of every step as it ends."""

    def __init__(self, laps: Laps, counts: deque[int]):
        self.laps, self.counts = laps, counts

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.laps.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = self.laps.step(self.counts.popleft())
