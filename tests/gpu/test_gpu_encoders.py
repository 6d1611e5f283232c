"""Encoders on a GPU in half precision: their losses against double precision, and runs that learn there."""

from __future__ import annotations

import copy

import pytest
import torch

from regard.commands.finetune import finetune
from regard.commands.pretrain import pretrain
from regard.models.bert import bert
from regard.models.electra import electra
from regard.models.heads import new_encoder
from regard.objectives.masked import Hiding, Masked
from regard.objectives.objective import Asked, to_device
from regard.objectives.pairs import SecondText
from regard.objectives.replaced import Replaced, generator_of
from regard.objectives.together import Together
from regard.rows import Tokens

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

VOCAB = 300


def question() -> dict:
    torch.manual_seed(0)
    lengths = [40, 7, 128, 3, 64, 90]
    tokens = Tokens.of([torch.randint(5, VOCAB, (length,)).tolist() for length in lengths])
    return {"tokens": tokens, "types": torch.randint(0, 2, (sum(lengths),)), "second": torch.randint(0, 2, (6,))}


def asked(name: str) -> Asked:
    torch.manual_seed(1)
    hiding = Hiding(4, VOCAB, (0, 1, 2, 3))
    if name == "bert":
        model = new_encoder("bert", bert(4, 128, 2, VOCAB, dropout=0.0), {"masked", "next"}).model
        return Asked(model, Together(Masked(hiding), SecondText()))
    model = new_encoder("electra", electra(4, 128, 2, VOCAB, narrow=64), {"replaced"}).model
    return Asked(model, Replaced(hiding, generator_of(model, 0.5))).eval()


@pytest.mark.parametrize("compiled", [False, True])
def test_the_loss_in_half_precision_is_that_in_double(compiled):
    module = asked("bert")
    batch = module.prepare(question())
    exact = copy.deepcopy(module).double()(batch)
    exact.loss.backward()
    module = module.cuda()
    if compiled:
        module.compile(dynamic=True)
    with torch.autocast("cuda", torch.bfloat16):
        result = module(to_device(batch, "cuda"))
    assert result.count.item() == exact.count.item()
    assert result.loss.item() == pytest.approx(exact.loss.item(), rel=0.01)
    result.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_a_generator_and_a_discriminator_learn_from_their_own_places():
    module = asked("electra").cuda().train()
    batch = to_device(module.prepare(question()), "cuda")
    optimizer, losses = torch.optim.AdamW(module.parameters(), 2e-3), []
    for _ in range(60):
        with torch.autocast("cuda", torch.bfloat16):
            result = module(batch)
        losses.append(result.loss.item())
        result.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.7 * losses[0]


def test_text_to_encoder_to_classifier(tmp_path):
    """The whole line, as commands run it: bf16 and the ragged kernel are chosen by themselves."""
    animals = {"cat": "it purrs at night", "dog": "it barks at noon"}
    told = [f"the {name} sat on the mat . {habit} ." for name, habit in animals.items()]
    (tmp_path / "text.txt").write_text("\n\n".join(told * 200))
    (tmp_path / "train.tsv").write_text(
        "text\tlabel\n" + "".join(f"{habit}\t{n}\n" for n, habit in animals.items()) * 60
    )
    pretrain("bert-tiny", [tmp_path / "text.txt"], out=tmp_path / "bert", vocab=60, steps=40, budget=2048, rate=1e-3)
    finetuned = finetune(
        tmp_path / "bert/model", "classify", out=tmp_path / "run", epochs=8.0, batch=8, rate=1e-3,
        train=tmp_path / "train.tsv", dev=tmp_path / "train.tsv",
    )  # fmt: skip
    assert finetuned.reader.device.type == "cuda"
    assert [finetuned(habit).label for habit in animals.values()] == [*animals]
