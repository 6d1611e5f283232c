"""`regard finetune` as ULMFiT does it, in whole and in part; and what holds if nothing is said."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from toy_examples import SHORT, assert_same_weights, finetuning, shape, write_stories

from regard.commands.encoders import new_reader
from regard.commands.finetuning_run import FinetuningRun
from regard.commands.settings import FinetuningSettings
from regard.config import update
from regard.models.encoder import HeadedEncoder
from regard.text.published import load_tokenizer
from regard.training.settings import OptimizerConfig


@pytest.fixture
def recurrent(encoder):
    return new_reader("lstm-tiny", load_tokenizer(encoder))


def optimizer(examples, model: HeadedEncoder, name: str, **settings) -> OptimizerConfig:
    """What a run of 400 steps in epochs of 100 is told."""
    given = update(FinetuningSettings(), {"train": str(examples[0]), "dev": str(examples[1]), **settings})
    return FinetuningRun(given, name, "classify", examples[0].parent).optimizer(model, 400, 100)


def begun(folder) -> dict:
    """The optimizer's settings, as the run's first checkpoint has them."""
    first = min((folder / "checkpoints").iterdir())
    return json.loads((first / "state.json").read_text())["config"]["optimizer"]


def test_a_transformer_is_tuned_as_it_was(encoder, examples):
    model = new_reader("bert-tiny", load_tokenizer(encoder)).model
    for name in ("bert-tiny", "a/folder"):
        plain = OptimizerConfig(1e-4, "linear", 40, 0.01, betas=(0.9, 0.999), epsilon=1e-6)
        assert optimizer(examples, model, name) == plain


def test_a_recurrent_model_that_has_learned_is_tuned_as_ulmfit_was(recurrent, examples):
    ulmfit = OptimizerConfig(
        1e-2, "slanted", 40, 0.01, betas=(0.7, 0.99), epsilon=1e-6, discriminative=2.6,
        unfreeze=min(100, 400 // (2 * len(recurrent.model.parts()))),
    )  # fmt: skip
    assert optimizer(examples, recurrent.model, "a/folder") == ulmfit
    from_nothing = optimizer(examples, recurrent.model, "lstm-tiny")
    assert from_nothing == optimizer(examples, recurrent.model, "a/folder", ulmfit=False)
    assert (from_nothing.rate, from_nothing.schedule, from_nothing.unfreeze) == (1e-3, "linear", 0)


def test_what_is_said_goes_before_ulmfits(recurrent, examples):
    said = {"rate": 0.5, "schedule": "cosine", "discriminative": 1.5, "unfreeze": 0.25}
    told = optimizer(examples, recurrent.model, "a/folder", **said)
    assert (told.rate, told.schedule, told.discriminative, told.unfreeze) == (0.5, "cosine", 1.5, 25)
    off = optimizer(examples, recurrent.model, "a/folder", discriminative=1.0, unfreeze=0.0)
    assert (off.discriminative, off.unfreeze, off.schedule) == (1.0, 0, "slanted")


def test_the_whole_of_it(call, encoder, examples, tmp_path):
    command = finetuning(encoder, "classify", *examples, tmp_path / "run", "--ulmfit", "--epochs", 6)
    done = call(*command)
    assert done.code == 0, done.err
    assert "each part's rate is that above it over 2.6" in done.err
    assert "the heads learn first, and one more part below them every 2 steps" in done.err
    told = begun(tmp_path / "run")
    assert (told["schedule"], told["discriminative"], told["unfreeze"]) == ("slanted", 2.6, 2)
    assert "slanted" in (tmp_path / "run/model/README.md").read_text()
    again = call(*command)
    assert again.code == 0 and "is finished" in again.err


def test_parts_learn_in_turn(call, encoder, examples, tmp_path):
    """Half an epoch each, of 2 steps: of 4 steps, those below the heads have one less from part to part."""
    in_turn = ["--epochs", 2, "--unfreeze", 0.5]
    assert call(*finetuning(encoder, "classify", *examples, tmp_path / "run", *in_turn)).code == 0
    moments = load_file(tmp_path / "run/checkpoints/step-00000004/optimizer.safetensors")
    taken = {(name.split(".")[1 if ".heads." in name else 2], float(moments[name])) for name in moments
             if name.endswith("/step")}  # fmt: skip
    assert taken == {("heads", 4.0), ("stack", 3.0), ("embed", 2.0)}


def test_ulmfit_is_its_parts_said_one_by_one(call, encoder, examples, tmp_path):
    short, parts = ["--epochs", 6, "--ulmfit"], ["--schedule", "slanted", "--discriminative", 2.6, "--unfreeze", 1]
    for name, more in (("one", []), ("two", parts)):
        assert call(*finetuning(encoder, "classify", *examples, tmp_path / name, *short, *more)).code == 0
    assert_same_weights(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(["--unfreeze", 3], "every 6 steps the lowest of 3 would learn from step 13 on, and the last is 2"),
     (["--unfreeze", -1], "unfreeze=-1.0: give epochs"),
     (["--discriminative", 0], "discriminative=0.0: give 1"),
     (["--schedule", "slated"], "slated")],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, encoder, examples, tmp_path, wrong, told):
    done = call(*finetuning(encoder, "classify", *examples, tmp_path / "run", *wrong))
    assert done.code == 2 and told in done.err, done.err
    mended = call(*finetuning(encoder, "classify", *examples, tmp_path / "run"))
    assert mended.code == 0, mended.err


@pytest.mark.parametrize("model", ["lstm-tiny", "albert-base"])
def test_recurrent_and_shared_layers_are_tuned_so_too(call, encoder, examples, tmp_path, model):
    small = {"albert-base": ["stack.layers=3", "stack.block.width=16", "stack.block.attention.heads=2",
                             "stack.block.inner=32", "embedding.width=8"]}.get(model, [])  # fmt: skip
    settings = [word for one in small for word in ("--set", one)]
    more = ["--tokenizer", encoder, "--ulmfit", "--epochs", 6, *settings]
    done = call(*finetuning(model, "classify", *examples, tmp_path / "run", *more))
    assert done.code == 0, done.err
    assert begun(tmp_path / "run")["unfreeze"] > 0


def test_pretraining_has_rates_and_betas_to_choose(call, tmp_path):
    text = write_stories(tmp_path / "text.txt")
    chosen = ["--schedule", "cosine", "--beta2", 0.99, "--clip", 0.5, "--discriminative", 1.5]
    done = call("pretrain", "bert-tiny", text, *SHORT, *shape(), *chosen, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    told = begun(tmp_path / "run")
    assert (told["schedule"], told["betas"], told["clip"], told["discriminative"]) == ("cosine", [0.9, 0.99], 0.5, 1.5)
    wrong = call("pretrain", "bert-tiny", text, *SHORT, *shape(), "--beta2", 1, "--out", tmp_path / "wrong")
    assert wrong.code == 2 and "betas=(0.9, 1.0)" in wrong.err
