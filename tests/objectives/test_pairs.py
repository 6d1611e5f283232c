"""What the second text of a row is: one answer a row, from its first token."""

from __future__ import annotations

import pytest
import torch
from tiny_encoder import encoder, learn, mean, pairs

from regard.errors import UsageProblem
from regard.objectives.objective import Asked
from regard.objectives.pairs import SecondText
from regard.rows import Tokens


def test_one_answer_a_row():
    model, batch = encoder("next"), pairs(9)
    result = SecondText().judge(model, SecondText().prepare(batch))
    logits = model.scores("next", model(batch["tokens"], batch["types"]), batch["tokens"].rows)
    assert logits.shape == (9, 2) and result.count == 9
    chances = logits.log_softmax(-1)[torch.arange(9), batch["second"]]
    torch.testing.assert_close(result.loss, -chances.sum())
    assert result.parts["right"] == (logits.argmax(-1) == batch["second"]).sum()


def test_label_0_is_the_true_second_text():
    """As in the files of BERT and ALBERT, whose heads would otherwise have to be read the other way round."""
    model = encoder("next")
    with torch.no_grad():
        model.heads["next"].out.weight.zero_()
        model.heads["next"].out.bias.copy_(torch.tensor([5.0, -5.0]))  # sure that each second text follows
    batch = {"tokens": Tokens.of([[0, 5, 1, 6, 1]]), "second": torch.tensor([0])}
    assert SecondText().judge(model, batch).loss < 0.01
    assert SecondText().judge(model, batch | {"second": torch.tensor([1])}).loss > 5


def test_a_model_without_the_head_is_refused():
    with pytest.raises(UsageProblem, match="SecondText needs a model with the head 'next', and this one has only mask"):
        SecondText().judge(encoder("masked"), pairs())


def test_second_texts_are_learned():
    losses = learn(Asked(encoder("next"), SecondText()), 60)
    assert mean(losses[:5]) > 0.5 and mean(losses[-5:]) < 0.1
