"""Those who embed texts, each in its own way, in full precision on a CPU and in bf16 on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.contest import Turns, Work
from benchmarks.mixed import texts_of
from benchmarks.plan import Plan
from regard.tasks.reader import Reader
from regard.tasks.sentence_folder import load_pooling

SHOWN = 64  # texts whose vectors are compared, in full precision everywhere

Embed = Callable[[list[str]], np.ndarray]  # a vector for each text


def ours(plan: Plan, turns: Turns) -> None:
    reader = Reader.load(plan.model, plan.device)
    tokens = int(reader.framed([(text,) for text in texts_of(plan)]).lengths.sum())
    compete(plan, turns, reader.model, reader.embed, tokens)


def transformers(plan: Plan, turns: Turns) -> None:
    """Batches of texts as they come, padded."""
    by_reference(plan, turns, lambda vectors: vectors)


def transformers_sorted(plan: Plan, turns: Turns) -> None:
    """Batches of texts sorted by length, padded: what its users do who care."""
    by_reference(plan, turns, in_order)


def by_reference(plan: Plan, turns: Turns, how_given: Callable[[Embed], Embed]) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(plan.model), AutoModel.from_pretrained(plan.model)
    model.eval().to(plan.device)
    pooling, most = load_pooling(Path(plan.model)), model.config.max_position_embeddings
    how = {"truncation": True, "max_length": min(most, pooling.longest)}
    if pooling.how != "mean" or len(pooling.modules) > 1 + pooling.unit or pooling.prompts.choose():
        raise SystemExit(f"{plan.model} declares more than mean pooling; this contender knows the mean alone")

    @torch.inference_mode()
    def vectors(texts: list[str]) -> Iterator[torch.Tensor]:
        for start in range(0, len(texts), plan.batch):
            batch = tokenizer(texts[start : start + plan.batch], padding=True, return_tensors="pt", **how)
            batch = batch.to(plan.device)
            real = batch["attention_mask"][..., None]  # (B, T, 1)
            mean = (model(**batch).last_hidden_state * real).sum(1) / real.sum(1)
            yield (F.normalize(mean, dim=-1) if pooling.unit else mean).float().cpu()

    tokens = sum(map(len, tokenizer(texts_of(plan), **how)["input_ids"]))
    compete(plan, turns, model, how_given(lambda texts: torch.cat(list(vectors(texts))).numpy()), tokens)


def in_order(embed: Embed) -> Embed:
    """The same of texts that are sorted by length, and put back in their own order."""

    def sorted_first(texts: list[str]) -> np.ndarray:
        order = np.argsort([-len(text) for text in texts], kind="stable")
        vectors = embed([texts[number] for number in order])
        return vectors[np.argsort(order)]

    return sorted_first


def sentence_transformers(plan: Plan, turns: Turns) -> None:
    """Batches of texts sorted by length, padded."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(plan.model, device=plan.device)
    read = model.tokenizer(texts_of(plan), truncation=True, max_length=model.max_seq_length)
    tokens = sum(map(len, read["input_ids"]))
    compete(plan, turns, model, lambda some: model.encode(some, batch_size=plan.batch, show_progress_bar=False), tokens)


def compete(plan: Plan, turns: Turns, model: Any, embed: Embed, tokens: int) -> None:
    torch.set_num_threads(plan.threads)
    texts = texts_of(plan)
    turns.show(embed(texts[:SHOWN]).tolist())
    if plan.on_gpu:
        model.bfloat16()
    for _ in range(plan.stretches):
        turns.begin()
        embed(texts)
        turns.end(tokens)


CONTENDERS: dict[str, Work] = {
    "regard": ours,
    "transformers": transformers,
    "transformers-sorted": transformers_sorted,
    "sentence-transformers": sentence_transformers,
}
