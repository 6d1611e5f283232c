"""Those who go on with prompts: regard and the reference library, greedily, from texts to texts: in float32 on a CPU,
in bf16 on a GPU, once what they write in float32 has been compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.contest import Turns
from benchmarks.plan import Plan
from regard.decoding.scribe import Launch

Write = Callable[[list[str]], list[list[int]]]


def at_work(plan: Plan, turns: Turns, write: Write, halve: Callable[[], Any]) -> None:
    prompts = json.loads(Path(plan.examples).read_text())
    turns.show([[float(id) for id in row] for row in write(prompts[: plan.batch])])
    if plan.on_gpu:
        halve()
    for number in range(plan.stretches):
        first = number * plan.batch * plan.steps
        turns.begin()
        batches = (prompts[first + step * plan.batch :][: plan.batch] for step in range(plan.steps))
        turns.end(sum(len(row) for some in batches for row in write(some)))


def regard(plan: Plan, turns: Turns, launch: Launch = "graphs") -> None:
    from regard.decoding.generate import Writing
    from regard.decoding.scribe import Scribe
    from regard.tasks.reader import Reader
    from regard.tasks.writer import Writer

    torch.set_num_threads(plan.threads)
    writer, how = Writer.of(Reader.load(plan.model, plan.device)), Writing(most=plan.most, temperature=0.0)
    writer.scribe = Scribe(writer.model, launch=launch)
    at_work(
        plan, turns, lambda prompts: [written.tokens for written in writer.generate(prompts, how)],
        lambda: setattr(writer, "precision", "bf16"),
    )  # fmt: skip


def regard_compiled(plan: Plan, turns: Turns) -> None:
    regard(plan, turns, "compiled")


def transformers(plan: Plan, turns: Turns) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    torch.set_num_threads(plan.threads)
    disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(plan.model).eval().to(plan.device)
    tokenizer = AutoTokenizer.from_pretrained(plan.model, padding_side="left")
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    tokenizer.pad_token_id = end

    @torch.inference_mode()
    def write(prompts: list[str]) -> list[list[int]]:
        read = tokenizer(prompts, return_tensors="pt", padding=True).to(plan.device)
        how = {"max_new_tokens": plan.most, "do_sample": False, "pad_token_id": end, "eos_token_id": end}
        rows = model.generate(**read, **how)[:, read["input_ids"].shape[1] :]
        tokenizer.batch_decode(rows, skip_special_tokens=True)
        return [row[: row.index(end)] if end in row else row for row in rows.tolist()]

    at_work(plan, turns, write, model.bfloat16)


CONTENDERS = {"regard": regard, "regard-compiled": regard_compiled, "transformers": transformers}
