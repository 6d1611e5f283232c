"""DistilBERT: what a student owes its teacher, how it begins, and that the teacher stays out of it."""

from __future__ import annotations

import copy

import pytest
import torch
from tiny_encoder import HIDING, encoder, learn, pairs

from regard.checkpoints.weights import weights_of
from regard.errors import Problem, UsageProblem
from regard.models.albert import albert
from regard.models.bert import bert
from regard.models.distilbert import distilbert
from regard.models.encoder import Encoder, HeadedEncoder, WordHead
from regard.objectives.distilled import Distilled, divergence, layers_from_teacher, spread
from regard.objectives.masked import Masked
from regard.objectives.objective import Asked


def question(objective: Distilled, rows=16, seed=0) -> dict:
    torch.manual_seed(seed)
    return objective.prepare(pairs(rows, seed))


def built(config, seed=0) -> HeadedEncoder:
    torch.manual_seed(seed)
    return HeadedEncoder(Encoder(config), {"masked": WordHead(config)}).eval()


# The three losses


def test_a_student_that_is_its_teacher_has_only_words_to_learn():
    teacher = encoder("masked")
    objective = Distilled(HIDING, teacher)
    batch = question(objective)
    result = objective.judge(copy.deepcopy(teacher), batch)
    assert result.parts["taught_loss"].abs() < 1e-4 and result.parts["cosine_loss"].abs() < 1e-4
    masked = Masked(HIDING).judge(teacher, batch)
    assert result.parts["masked_loss"] == masked.loss and result.parts["masked_right"] == masked.parts["right"]
    torch.testing.assert_close(result.loss, 2 * masked.loss, atol=1e-3, rtol=0)


def test_the_losses_by_hand():
    teacher, student = encoder("masked", layers=3, seed=1), encoder("masked", seed=2)
    objective = Distilled(HIDING, teacher)
    batch = question(objective)
    result = objective.judge(student, batch)
    own, theirs = (model(batch["tokens"], batch["types"]) for model in (student, teacher))
    place, rows = batch["places"], batch["tokens"].rows
    p, q = ((m.scores("masked", s[place], rows) / 2).softmax(-1) for m, s in ((teacher, theirs), (student, own)))
    taught = 4 * (p * (p / q).log()).sum(-1).mean()
    cosine = (1 - (own * theirs).sum(-1) / (own.norm(dim=-1) * theirs.norm(dim=-1))).mean()
    masked = Masked(HIDING).judge(student, batch)
    torch.testing.assert_close(result.parts["taught_loss"] / result.count, taught)
    torch.testing.assert_close(result.parts["cosine_loss"] / result.count, cosine)
    wanted = 5 * taught + 2 * masked.loss / masked.count + cosine
    torch.testing.assert_close(result.loss / result.count, wanted)


def test_the_divergence_has_the_gradient_of_soft_targets():
    """Times the square of the temperature, so that it is as large as that of hard ones."""
    torch.manual_seed(0)
    logits, wanted = torch.randn(3, 7, requires_grad=True), torch.randn(3, 7)
    divergence(logits, wanted, 100.0).backward()
    centred = wanted - wanted.mean(-1, keepdim=True)
    own = (logits - logits.mean(-1, keepdim=True)).detach()
    torch.testing.assert_close(logits.grad, (own - centred) / 7, atol=0.01, rtol=0)  # as hot as that, it is linear


# The teacher


def test_the_teacher_is_no_part_of_what_is_trained():
    teacher = encoder("masked", layers=3)
    asked = Asked(encoder("masked", seed=1), Distilled(HIDING, teacher.train()))
    assert weights_of(asked).keys() == {f"model.{name}" for name in weights_of(asked.model)}
    assert len(list(asked.parameters())) == len(list(asked.model.parameters()))
    before = {name: tensor.clone() for name, tensor in weights_of(teacher).items()}
    asked.train()
    assert not teacher.training
    learn(asked, 3)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(teacher).items())


def test_the_teacher_follows_the_student():
    """Meta tensors stand for those of another device: their shapes are computed, and nothing else."""
    teacher, student = encoder("masked", layers=3), encoder("masked").to("meta")
    Distilled(HIDING, teacher).teacher_of(student)
    assert {parameter.device.type for parameter in teacher.parameters()} == {"meta"}


@pytest.mark.parametrize(
    "shape, told",
    [
        ({"vocab": 30}, "the student's vocabulary is 24 and its teacher's 30"),
        ({"width": 16}, "the student's width is 32 and its teacher's 16"),
    ],
)
def test_a_teacher_of_another_size_is_refused(shape, told):
    objective = Distilled(HIDING, encoder("masked", **shape))
    with pytest.raises(Problem, match=told):
        objective.judge(encoder("masked"), question(objective))


def test_heads_that_are_missing_are_named():
    for student, teacher in (("next", "masked"), ("masked", "next")):
        objective = Distilled(HIDING, encoder(teacher))
        with pytest.raises(
            UsageProblem, match="Distilled needs a model with the head 'masked', and this one has only n"
        ):
            objective.judge(encoder(student), question(objective))


def test_a_student_nears_its_teacher():
    teacher = encoder("masked", layers=3, seed=4)
    with torch.no_grad():
        for parameter in teacher.heads["masked"].parameters():
            parameter.normal_(0, 1)  # opinions worth learning
    asked = Asked(encoder("masked"), Distilled(HIDING, teacher))
    before = asked(question(asked.objective, seed=100))
    learn(asked, 100)
    with torch.no_grad():
        after = asked(question(asked.objective, seed=100))
    for part in ("taught_loss", "cosine_loss"):
        assert after.parts[part] < 0.5 * before.parts[part], part


# How a student begins


@pytest.mark.parametrize(
    "count, layers, taken",
    [(6, 12, [0, 2, 4, 7, 9, 11]), (2, 3, [0, 2]), (3, 3, [0, 1, 2]), (1, 12, [0]), (12, 24, None)],
)
def test_layers_are_spread_from_first_to_last(count, layers, taken):
    found = spread(count, layers)
    assert found == taken or taken is None
    assert found == sorted(set(found)) and found[0] == 0 and (found[-1] == layers - 1 or count == 1)


def test_a_student_takes_every_other_layer():
    teacher, student = built(bert(6, 16, 2, 24, longest=32)), built(bert(3, 16, 2, 24, longest=32), seed=1)
    assert layers_from_teacher(student, teacher) == []
    theirs, own = teacher.state_dict(), student.state_dict()
    for number, taken in enumerate([0, 2, 5]):
        for name in (name for name in own if name.startswith(f"encoder.stack.blocks.{number}.")):
            assert torch.equal(own[name], theirs[name.replace(f"blocks.{number}.", f"blocks.{taken}.", 1)])
    assert all(torch.equal(own[name], theirs[name]) for name in own if ".blocks." not in name)


@torch.no_grad()
def test_a_student_without_types_begins_as_its_teacher_reads_one_text():
    shape = (4, 16, 2, 24)
    teacher, student = built(bert(*shape)), built(distilbert(*shape), seed=1)
    batch = pairs()
    assert not torch.allclose(student(batch["tokens"]), teacher(batch["tokens"]), atol=0.1)
    assert layers_from_teacher(student, teacher) == []
    torch.testing.assert_close(student(batch["tokens"], batch["types"]), teacher(batch["tokens"]), atol=1e-5, rtol=0)


def test_a_teacher_with_one_block_gives_it_to_every_layer():
    teacher, student = built(albert(4, 16, 2, 24, narrow=16)), built(albert(4, 16, 2, 24, narrow=16), seed=1)
    assert layers_from_teacher(student, teacher) == []
    batch = pairs()
    assert torch.equal(student(batch["tokens"]), teacher(batch["tokens"]))


def test_what_cannot_be_taken_is_named_and_left():
    teacher, student = built(bert(2, 16, 2, 24, longest=32)), built(bert(2, 16, 2, 24, longest=20), seed=1)
    before = student.encoder.embed.positions.weight.clone()
    assert layers_from_teacher(student, teacher) == ["encoder.embed.positions.weight"]
    assert torch.equal(student.encoder.embed.positions.weight, before)
