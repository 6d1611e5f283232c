"""The reference library, fine-tuning with its Trainer: each batch is padded to its longest row."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar

from benchmarks.contest import Turns
from benchmarks.ours import SHOWN
from benchmarks.plan import Plan
from regard.data.batches import Order
from regard.data.reading import Reading
from regard.tasks.classify import Classify

ATTENTION_DROPOUT = "attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"  # as one family or another has it

Row = dict[str, Any]  # input_ids, attention_mask, ..., labels


def finetune(plan: Plan, turns: Turns) -> None:
    torch.set_num_threads(plan.threads)
    disable_progress_bar()
    config = configured(plan)
    model = AutoModelForSequenceClassification.from_pretrained(plan.model, config=config).to(plan.device)
    tokenizer = AutoTokenizer.from_pretrained(plan.model)
    rows, collate = read(plan, tokenizer, config), DataCollatorWithPadding(tokenizer)
    turns.show(scores(model, collate(rows[:SHOWN]), plan.device))
    rows = [rows[number] for number in order(plan, len(rows))]
    with tempfile.TemporaryDirectory() as folder:
        timed = Timed(plan, turns, [len(row["input_ids"]) for row in rows])
        trainer = Trainer(model, arguments(plan, folder), data_collator=collate, train_dataset=rows, callbacks=[timed])
        trainer.train()


def configured(plan: Plan) -> Any:
    """Its config, with the dropout of attention weights that the plan has."""
    config = AutoConfig.from_pretrained(plan.model)
    dropout = next(name for name in ATTENTION_DROPOUT if hasattr(config, name))
    setattr(config, dropout, plan.attention_dropout)
    return config


def read(plan: Plan, tokenizer: Any, config: Any) -> list[Row]:
    data = Classify.read(plan.examples, Reading())
    texts, longest = [text for (text,) in data.texts], config.max_position_embeddings
    encoded = tokenizer(texts, truncation=True, max_length=longest)
    labels = [config.label2id[label] for label in data.labels]
    columns = {**encoded, "labels": labels}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@torch.no_grad()
def scores(model: Any, batch: Row, device: str) -> list[list[float]]:
    model.eval()
    return model(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.float().tolist()


def order(plan: Plan, count: int) -> Iterator[int]:
    """The examples in the order in which regard takes them, so that both have the same batches."""
    batches = Order(np.ones(count), plan.batch, plan.seed)
    for position in range(plan.all_steps):
        yield from batches.numbers_at(position)


def arguments(plan: Plan, folder: str) -> TrainingArguments:
    """The defaults, in the precision of the contest; it neither saves nor reports."""
    return TrainingArguments(
        folder, max_steps=plan.all_steps, per_device_train_batch_size=plan.batch, learning_rate=plan.rate,
        bf16=plan.on_gpu, use_cpu=not plan.on_gpu, seed=plan.seed, train_sampling_strategy="sequential",
        save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip


class Timed(TrainerCallback):
    """Is told of every step as it ends."""

    def __init__(self, plan: Plan, turns: Turns, lengths: list[int]):
        self.plan, self.turns, self.lengths = plan, turns, lengths

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.turns.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.plan.steps:
            return
        size = self.plan.batch * self.plan.steps
        end = self.plan.batch * state.global_step
        self.turns.end(sum(self.lengths[end - size : end]))
        if state.global_step < self.plan.all_steps:
            self.turns.begin()
