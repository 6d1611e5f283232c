"""Longformer: the reference library's numbers where tokens are chosen, windows by layer, and how they are written."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import torch

from regard.attention.watch import watch
from regard.checkpoints.files import load_tensors
from regard.errors import UsageProblem
from regard.models.folder import load_published
from regard.models.heads import new_encoder, with_heads
from regard.models.longformer import longformer
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders
torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 120, "type_vocab_size": 1, "layer_norm_eps": 1e-3, "pad_token_id": 1,
    "attention_window": [4, 8, 4], "sep_token_id": 2,
}  # fmt: skip


def text(length: int) -> list[int]:
    return torch.randint(3, 40, (length,), generator=torch.Generator().manual_seed(length)).tolist()


ROWS = [[0, *text(3), 2, 2, *text(40), 2], [0, *text(9), 2, 2, *text(90), 2], [0, 5, 2, 2, 7, 2]]
TOKENS = Tokens.of(ROWS)


def made(folder, architecture: str, **settings):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(transformers.LongformerConfig(**SIZES | settings)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(float("norm" in name.lower() and name.endswith("weight")), 0.3)
    model.save_pretrained(folder)
    return model, load_published(folder)


@torch.no_grad()
def reference_answer(model):
    ids = torch.full((len(ROWS), TOKENS.rows.longest), 1)
    ids[TOKENS.rows.real] = TOKENS.ids
    asked = {"input_ids": ids, "attention_mask": TOKENS.rows.real.long()}
    if type(model).__name__.endswith("MultipleChoice"):
        # theirs chooses the padding too, which nobody looks at: a row each
        logits = [model(input_ids=torch.tensor([[row]])).logits for row in ROWS]
        return torch.cat(logits)
    answer = model(**asked)
    if "start_logits" in answer:
        return TOKENS.rows.unpad(torch.stack([answer.start_logits, answer.end_logits], -1))
    return TOKENS.rows.unpad(answer.logits) if answer.logits.dim() == 3 else answer.logits


ARCHITECTURES = {
    "LongformerForMaskedLM": "masked",
    "LongformerForSequenceClassification": "classify",
    "LongformerForMultipleChoice": "choose",
    "LongformerForTokenClassification": "tag",
    "LongformerForQuestionAnswering": "answer",
}


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_long_rows_and_chosen_tokens_agree_with_the_reference(tmp_path, architecture):
    reference, published = made(tmp_path, architecture)
    model = published.model
    scores = model.scores(ARCHITECTURES[architecture], model(TOKENS), TOKENS.rows)
    torch.testing.assert_close(scores, reference_answer(reference), atol=1e-5, rtol=0)
    tensors, written = load_tensors(tmp_path / "model.safetensors"), published.files()["model.safetensors"]
    assert written.keys() == tensors.keys() and all(torch.equal(written[name], tensors[name]) for name in tensors)
    assert json.loads(published.files()["config.json"]) == json.loads((tmp_path / "config.json").read_text())


@torch.no_grad()
def test_who_is_chosen_looks_at_all_and_is_looked_at_by_all(tmp_path):
    _, published = made(tmp_path, "LongformerForQuestionAnswering")
    model = published.model
    with watch(model) as seen:
        watched = model(TOKENS)
    assert torch.equal(watched, model(TOKENS))
    for (calls,), window in zip(seen.values(), (4, 8, 4), strict=True):
        for row, weights in zip(ROWS, calls, strict=True):
            question = torch.arange(len(row)) < row.index(2)
            places = torch.arange(len(row))
            near = (places[:, None] - places).abs() <= window // 2
            looks = near | question[:, None] | question
            assert torch.equal(weights > 0, looks.expand_as(weights))
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@torch.no_grad()
def test_watching_some_rows_and_heads_sees_the_same(tmp_path):
    _, published = made(tmp_path, "LongformerForSequenceClassification")
    with watch(published.model) as whole:
        published.model(TOKENS)
    with watch(published.model, heads=[1], rows=[2, 0]) as part:
        published.model(TOKENS)
    for name, (calls,) in part.items():
        for row, weights in zip((2, 0), calls, strict=True):
            torch.testing.assert_close(weights, whole[name][0][row][[1]])


@torch.no_grad()
def test_a_row_alone_is_the_row_in_a_batch(tmp_path):
    _, published = made(tmp_path, "LongformerForQuestionAnswering")
    together = TOKENS.rows.split(published.model(TOKENS))
    for row, states in zip(ROWS, together, strict=True):
        torch.testing.assert_close(published.model(Tokens.of([row])), states, atol=1e-5, rtol=0)


@pytest.mark.parametrize("window", [4, [4, 4, 4], [2, 4, 6]])
def test_a_window_is_one_number_or_a_list(tmp_path, window):
    _, published = made(tmp_path, "LongformerModel")
    tensors, config = load_tensors(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    config["attention_window"] = window
    again = published.family.load(config, tensors, tmp_path)
    sides = [block.attention.route.side for block in again.model.encoder.stack.blocks]
    assert sides == [size // 2 for size in (window if isinstance(window, list) else [window] * 3)]
    assert json.loads(again.files()["config.json"]) == config


def test_another_head_chooses_other_tokens():
    published = new_encoder("longformer", replace(longformer(2, 16, 2, 40, longest=60, window=4)), {"masked"})
    assert published.model.encoder.choose is None
    found, fresh = with_heads(published, {"classify"}, 3)
    assert found.model.encoder.choose is not None
    assert fresh == [f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("bias", "weight")]
    assert json.loads(found.files()["config.json"])["attention_window"] == [4, 4]


def test_every_weight_learns_that_is_asked():
    model = new_encoder("longformer", longformer(2, 16, 2, 40, longest=110, window=4), {"answer"}).model.train()
    model.scores("answer", model(TOKENS), TOKENS.rows).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name


def test_windows_that_cannot_be_are_refused():
    with pytest.raises(UsageProblem, match="even"):
        longformer(2, 16, 2, 40, window=5)
    with pytest.raises(UsageProblem, match="3 windows for 2 layers"):
        replace(longformer(2, 16, 2, 40), windows=(2, 2, 2))
