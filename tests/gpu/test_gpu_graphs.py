"""Passes as CUDA graphs, of a stack or of all that is asked: what comes out, the gradients and what is dropped are as
without."""

from __future__ import annotations

import copy

import pytest
import torch

from regard.commands.finetune import finetune
from regard.commands.picture_run import augment_of
from regard.commands.picture_settings import AugmentSettings
from regard.config import change
from regard.data.preprocessor import Preprocessor
from regard.models import VISION
from regard.models.albert import albert
from regard.models.bert import bert
from regard.models.encoder import Encoder
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder
from regard.objectives.objective import Asked
from regard.objectives.pictured import Pictured, Teacher
from regard.rows import Rows, Tokens
from regard.text.tokenizer import ENCODER, Tokenizer
from regard.training.compiled import compiled
from regard.training.graphs import replayed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

VOCAB = 100
CONFIGS = {
    "bert": lambda dropout: bert(3, 128, 2, VOCAB, dropout=dropout),
    "albert": lambda dropout: albert(3, 128, 2, VOCAB, narrow=64),
    "gpt2": lambda dropout: gpt2(3, 128, 2, VOCAB, dropout=dropout),
}


def encoder(family: str, dropout: float = 0.0) -> torch.nn.Module:
    torch.manual_seed(0)
    return Encoder(CONFIGS[family](dropout)).cuda().train()


def tokens(*lengths: int) -> Tokens:
    torch.manual_seed(sum(lengths))
    return Tokens.of([torch.randint(5, VOCAB, (length,)).tolist() for length in lengths], "cuda")


def passed(model, batches, precise) -> list[torch.Tensor]:
    """The states of all batches, then the gradients that they add up to."""
    model.zero_grad()
    states = []
    for batch in batches:
        with torch.autocast("cuda", torch.bfloat16, enabled=not precise):
            out = model(batch).float()
        states.append(out.detach().clone())
        (out * torch.linspace(-1, 1, out.shape[1], device=out.device)).sum().backward()  # not what a norm keeps
    return [*states, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("precise", [True, False], ids=["float32", "bf16"])
@pytest.mark.parametrize("family", CONFIGS)
def test_states_and_gradients_are_as_without(family, precise):
    model = encoder(family)
    batches = [tokens(7, 30, 1, 12), tokens(5, 21, 9, 13), tokens(40, 2), tokens(7, 30, 1, 12)]  # two of one shape
    wanted = passed(copy.deepcopy(model), batches, precise)
    with replayed(model):
        found = passed(model, batches, precise)
        again = passed(model, batches, precise)
    assert len(found) == len(wanted)
    near, rounding = 1e-4 if precise else 0.05, 1e-7 * max(one.norm() for one in wanted)
    for one, other, third in zip(found, wanted, again, strict=True):  # a key's bias has a gradient of rounding alone
        assert (one - other).norm() <= near * other.norm() + rounding
        assert (one - third).norm() <= near * other.norm() + rounding


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_compiled_blocks_are_recorded_too(family):
    """Other kernels round otherwise: about as far from float32 as plain ones in half precision.  Of a key's bias, whose
    gradient is zero, rounding is all that there is."""
    model, batches = encoder(family), [tokens(*[20] * 40), tokens(*[20] * 33), tokens(*[20] * 40)]
    exact, plain = (passed(copy.deepcopy(model), batches, precise) for precise in (True, False))
    with compiled(model), replayed(model):
        found = passed(model, batches, False)
    for one, other, true in zip(found, plain, exact, strict=True):
        assert (one - true).norm() <= 0.05 * true.norm() + 3 * (other - true).norm()


@pytest.mark.parametrize("family", CONFIGS)
def test_rows_of_one_length_are_a_shape_of_their_own(family):
    """As the patches of pictures are."""
    model, batches = encoder(family), [tokens(*[20] * 40), tokens(*[20] * 33), tokens(*[20] * 40)]
    wanted = passed(copy.deepcopy(model), batches, precise=True)
    with replayed(model):
        found = passed(model, batches, precise=True)
    rounding = 1e-7 * max(one.norm() for one in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm() + rounding


def pictured(family: str, augment: AugmentSettings, roles: tuple[str, ...]) -> Asked:
    """A small model of pictures of 16 pixels, taught by a convolutional one where it has a token for that."""
    torch.manual_seed(0)
    config = VISION["convolutional-small" if family == "convolutional" else f"{family}-cifar"]
    config = change(config, "picture" if family == "convolutional" else "embedding.picture", 16)
    model, how = new_encoder(family, config, roles, 10).model.cuda(), Preprocessor.square(16)
    other = new_encoder("convolutional", VISION["convolutional-small"], ["classify"], 10).model.cuda()
    store = torch.randint(0, 256, (100, 16, 16, 3), dtype=torch.uint8, device="cuda")
    teacher = Teacher(other, how, tuple(range(10))) if "taught" in roles else None
    changes = augment_of(augment, 16)
    return Asked(model, Pictured(how, 10, store=store, augment=changes, smoothing=0.1, teacher=teacher)).train()


def judged(asked: Asked, sizes: list[int]) -> list[torch.Tensor]:
    """What is told of batches, then the gradients that they add up to, and what norms have counted."""
    told = []
    for number, size in enumerate(sizes):
        torch.manual_seed(number)
        numbers, wanted = torch.randint(0, 100, (size,), device="cuda"), torch.randint(0, 10, (size,), device="cuda")
        torch.manual_seed(100 + number)
        result = asked({"numbers": Tokens(numbers, Rows.even(size, 1, "cuda")), "wanted": wanted})
        result.loss.backward()
        told.append(torch.stack([result.loss.detach(), result.count, *result.parts.values()]))
    return [*told, *(p.grad for p in asked.parameters() if p.grad is not None), *asked.buffers()]


ROLES = {"vit": ("classify",), "deit": ("classify", "taught"), "convolutional": ("classify",)}
CHANGES = {"mixed": AugmentSettings(), "one of many": AugmentSettings(one_of_many=1.0, mixed=0.0)}


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("family", ROLES)
def test_pictures_are_changed_and_judged_by_one_graph_as_without(family, changes):
    asked, sizes = pictured(family, CHANGES[changes], ROLES[family]), [24, 24, 10, 24]
    wanted = judged(copy.deepcopy(asked), sizes)
    with replayed(asked):
        found = judged(asked, sizes)
    assert len(found) == len(wanted) and "forward" not in vars(asked)
    rounding = 1e-6 * max(one.norm() for one in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() <= 1e-3 * other.norm() + rounding


def test_what_is_dropped_follows_from_the_seed_alone():
    model, batch = encoder("bert", dropout=0.3), tokens(9, 14, 3)

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return model(batch).detach().clone()

    with replayed(model):
        first, other, again = drawn(1), drawn(2), drawn(1)  # the first of them records
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_pass_within_a_pass_is_launched_as_ever():
    model, batch = encoder("bert"), tokens(9, 14, 3)
    with replayed(model):
        first, second = model(batch), model(batch)
        kept = first.detach().clone()
        (first.sum() + second.square().sum()).backward()
        assert torch.allclose(first, kept) and torch.allclose(second, kept, atol=1e-5)
    assert "read" not in vars(model.stack)


def test_a_finetuning_learns_by_graphs_and_goes_on_where_it_stopped(tmp_path):
    rows = [f"{word} {'x ' * (n % 7)}\t{label}" for n in range(40) for word, label in (("good", 1), ("bad", 0))]
    data = tmp_path / "data.tsv"
    data.write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    Tokenizer.train("wordpiece", rows, 60, lowercase=True, special=ENCODER).save(tmp_path / "tokenizer.json")
    about = {"train": data, "dev": data, "tokenizer": tmp_path / "tokenizer.json", "best": "last accuracy"}
    about |= {"batch": 8, "rate": 1e-3, "seed": 3, "schedule": "constant", "warmup": 0.0}

    def tuned(name: str, epochs: float):
        return finetune("bert-tiny", "classify", out=tmp_path / name, epochs=epochs, **about)

    whole = tuned("whole", 3.0)
    assert [whole("good x").label, whole("bad x").label] == ["1", "0"]
    tuned("parts", 1.5)
    parts = tuned("parts", 3.0)
    pairs = zip(whole.reader.model.parameters(), parts.reader.model.parameters(), strict=True)
    assert all(torch.allclose(one, other, atol=2e-3) for one, other in pairs)
