"""Objectives that share a reading: the sum of their means, and the reference library's numbers."""

from __future__ import annotations

import os

import pytest
import torch
from tiny_encoder import HIDING, encoder, learn, mean, pairs

from regard.errors import UsageProblem
from regard.models.folder import load_published
from regard.objectives.masked import Masked
from regard.objectives.objective import Asked, Objective
from regard.objectives.pairs import SecondText
from regard.objectives.replaced import Replaced, generator_of
from regard.objectives.together import Together
from regard.rows import Rows, Tokens

os.environ["HF_HUB_OFFLINE"] = "1"


def question(objective: Objective, rows=16, seed=0) -> dict:
    torch.manual_seed(seed)
    return objective.prepare(pairs(rows, seed))


def both() -> Together:
    return Together(Masked(HIDING), SecondText())


def test_the_loss_is_the_sum_of_the_means():
    model, batch = encoder("masked", "next"), question(both())
    result = both().judge(model, batch)
    masked, second = Masked(HIDING).judge(model, batch), SecondText().judge(model, batch)
    assert result.count == masked.count != second.count
    torch.testing.assert_close(result.loss / result.count, masked.loss / masked.count + second.loss / second.count)


def test_parts_are_each_one_s_own_means():
    model, batch = encoder("masked", "next"), question(both())
    result = both().judge(model, batch)
    assert list(result.parts) == ["masked_loss", "masked_right", "second_loss", "second_right"]
    for objective in (Masked(HIDING), SecondText()):
        own = objective.judge(model, batch)
        for part, value in {"loss": own.loss, **own.parts}.items():
            found = result.parts[f"{objective.name}_{part}"]
            assert not found.requires_grad
            torch.testing.assert_close(found / result.count, value / own.count)


def test_the_encoder_reads_once():
    model, batch = encoder("masked", "next"), question(both())
    readings = []
    model.encoder.register_forward_hook(lambda *_: readings.append(1))
    both().judge(model, batch).loss.backward()
    assert len(readings) == 1
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_rows_without_hidden_pieces_do_no_harm():
    """Only special pieces: nothing is hidden, nothing counts, and no number is lost."""
    batch = {"tokens": Tokens.of([[0, 1, 1], [0, 1, 1]]), "second": torch.tensor([0, 1])}
    result = both().judge(encoder("masked", "next"), both().prepare(batch))
    assert result.count == 0 and result.loss == 0


def test_what_changes_the_question_cannot_be_shared():
    model = encoder("replaced")
    with pytest.raises(UsageProblem, match="Replaced cannot be asked together with others"):
        Together(Replaced(HIDING, generator_of(model)), SecondText())


def test_both_are_learned():
    asked = Asked(encoder("masked", "next"), both())
    losses = learn(asked, 150)
    assert mean(losses[-10:]) < 0.7 * mean(losses[:5])
    with torch.no_grad():
        result = asked(question(asked.objective, 64, seed=1000))
    assert result.parts["second_right"] / result.count > 0.95


# The reference library

SIZES = {
    "vocab_size": 24,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "embedding_size": 8,  # BERT does not read it
}


@pytest.mark.parametrize(
    "architecture, label",
    [("BertForPreTraining", "next_sentence_label"), ("AlbertForPreTraining", "sentence_order_label")],
)
def test_the_loss_is_that_of_the_reference_library(tmp_path, architecture, label):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, architecture)
    torch.manual_seed(0)
    reference = kind(kind.config_class(**SIZES)).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.normal_(0, 0.3)
    reference.save_pretrained(tmp_path)
    model = load_published(tmp_path).model

    batch = question(both())
    rows: Rows = batch["tokens"].rows
    labels = torch.full((rows.total,), -100)
    labels[batch["places"]] = batch["words"]
    answer = reference(
        input_ids=rows.pad(batch["tokens"].ids),
        token_type_ids=rows.pad(batch["types"]),
        attention_mask=rows.real.long(),
        labels=rows.pad(labels + 100) - 100,  # where there is no token, -100
        **{label: batch["second"]},
    )
    result = both().judge(model, batch)
    torch.testing.assert_close(result.loss / result.count, answer.loss, atol=1e-5, rtol=1e-5)
