"""Labels of pictures: sums that add up, shares of labels, teachers hard and soft, and DeiT's second token."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.config import change
from regard.data.augment import Augment, Flip, Mix
from regard.data.preprocessor import Preprocessor
from regard.models import VISION
from regard.models.heads import new_encoder
from regard.objectives.objective import Asked
from regard.objectives.pictured import Pictured, Teacher
from regard.rows import Rows, Tokens

torch.set_num_threads(1)

SMALL = {"embedding.width": 16, "stack.block.width": 16, "stack.block.inner": 16, "stack.block.attention.heads": 2}
SMALL |= {"stack.layers": 1, "embedding.picture": 8}
HOW = Preprocessor.square(8)
PIXELS = torch.randint(0, 255, (12, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
BATCH = {"pixels": PIXELS, "wanted": torch.arange(12) % 3}


def made(family: str, roles=("classify",)):
    config = VISION[f"{family}-cifar"] if family != "convolutional" else VISION["convolutional-small"]
    for path, value in (SMALL if family != "convolutional" else {"width": 16, "picture": 8}).items():
        config = change(config, path, value)
    torch.manual_seed(0)
    return new_encoder(family, config, roles, 3).model


def half(start: int) -> dict:
    return {name: part[start : start + 6] for name, part in BATCH.items()}


@pytest.mark.parametrize("family", ["vit", "deit", "convolutional"])
def test_two_halves_are_the_whole_and_a_store_is_the_pixels(family):
    model, asked = made(family), Pictured(HOW, 3, smoothing=0.1).eval()
    whole, parts = asked.judge(model, BATCH), [asked.judge(model, half(start)) for start in (0, 6)]
    torch.testing.assert_close(whole.loss, parts[0].loss + parts[1].loss)
    assert int(whole.count) == 12
    numbers = Tokens(torch.arange(12).flip(0), Rows.even(12, 1))
    stored = Pictured(HOW, 3, smoothing=0.1, store=PIXELS.flip(0)).eval()
    torch.testing.assert_close(stored.judge(model, {"numbers": numbers, "wanted": BATCH["wanted"]}).loss, whole.loss)


ROLES = {"vit": ["classify"], "deit": ["classify", "taught"], "convolutional": ["classify"]}


@pytest.mark.parametrize("family, roles", ROLES.items())
def test_one_batch_can_be_learnt_by_heart(family, roles):
    asked = Asked(made(family, roles), Pictured(HOW, 3)).train()
    adam = torch.optim.Adam(asked.parameters(), lr=0.01)
    for _ in range(60):
        adam.zero_grad()
        asked(BATCH).loss.backward()
        adam.step()
    result = asked(BATCH)
    assert result.parts["right"] == 12 and result.loss / 12 < 0.2


def test_pictures_are_changed_in_training_alone_and_by_the_seed():
    model, asked = made("vit"), Pictured(HOW, 3, augment=Augment([Flip()], Mix()))
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(float(asked.train().judge(model, BATCH).loss))
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(asked.eval().judge(model, BATCH).loss, Pictured(HOW, 3).eval().judge(model, BATCH).loss)


def scores(model, role):
    from regard.layers.patches import Pictures

    pictures = Pictures((HOW.normal(HOW.scaled(PIXELS)),))
    return model.scores(role, model(pictures), model.encoder.rows(pictures)).float()


@torch.no_grad()
def test_a_hard_teacher_is_deits_formula():
    student, teacher = made("deit", ["classify", "taught"]), made("convolutional").eval()
    asked = Pictured(HOW, 3, teacher=Teacher(teacher, HOW, (2, 0, 1), "hard", 0.5)).eval()
    said = scores(teacher, "classify")[:, [2, 0, 1]].argmax(-1)
    wanted = F.cross_entropy(scores(student, "classify"), BATCH["wanted"], reduction="sum") / 2
    wanted += F.cross_entropy(scores(student, "taught"), said, reduction="sum") / 2
    torch.testing.assert_close(asked.judge(student, BATCH).loss, wanted)


@torch.no_grad()
def test_a_soft_teacher_is_hintons_formula():
    student, teacher = made("vit"), made("convolutional").eval()
    asked = Pictured(HOW, 3, teacher=Teacher(teacher, HOW, (0, 1, 2), "soft", 0.3, 2.0)).eval()
    own, said = scores(student, "classify"), scores(teacher, "classify")
    wanted = 0.7 * F.cross_entropy(own, BATCH["wanted"], reduction="sum")
    wanted += 0.3 * 4 * F.kl_div((own / 2).log_softmax(-1), (said / 2).softmax(-1), reduction="sum")
    torch.testing.assert_close(asked.judge(student, BATCH).loss, wanted)


def test_a_teacher_is_neither_trained_nor_saved_and_sees_its_own_size():
    student, teacher = made("vit"), made("convolutional")
    asked = Asked(student, Pictured(HOW, 3, teacher=Teacher(teacher, Preprocessor.square(16), (0, 1, 2))))
    asked.train()(BATCH).loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters()) and not teacher.training
    assert not any("teacher" in name for name in asked.state_dict())


def test_only_small_pictures_are_judged_in_one_launch():
    assert Pictured(Preprocessor.square(32), 10).steady and not Pictured(Preprocessor.square(224), 10).steady
