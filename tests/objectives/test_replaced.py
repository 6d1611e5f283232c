"""ELECTRA: a generator on the model's own embedding, its samples, and who learns from what."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from tiny_encoder import HIDING, MASK, SPECIAL, VOCAB, encoder, learn, mean, pairs

from regard.checkpoints.weights import set_weights, weights_of
from regard.errors import UsageProblem
from regard.models.electra import electra
from regard.models.encoder import Encoder, HeadedEncoder
from regard.models.folder import load_published
from regard.objectives.objective import Asked
from regard.objectives.replaced import Replaced, generator_of, sampled
from regard.rows import Rows, Tokens
from regard.training.loop import train
from regard.training.report import Reporter
from regard.training.settings import OptimizerConfig, TrainingConfig

os.environ["HF_HUB_OFFLINE"] = "1"


def asked(weight=50.0, **shape) -> Asked:
    model = encoder("replaced", **shape)
    return Asked(model, Replaced(HIDING, generator_of(model, 0.5), weight))


def question(objective: Replaced, rows=16, seed=0) -> dict:
    torch.manual_seed(seed)
    return objective.prepare(pairs(rows, seed))


def judged(both: Asked, batch: dict, seed=1):
    torch.manual_seed(seed)  # of the samples
    return both(batch)


def gradients(both: Asked, batch: dict) -> dict[str, torch.Tensor]:
    both.zero_grad()
    judged(both, batch).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in both.named_parameters()}


# The generator


@pytest.mark.parametrize(
    "config, share, width, heads",
    [
        (electra(), 0.25, 64, 1),  # the sizes of the paper's models; heads are 64 wide
        (electra(12, 768, 12, narrow=768), 1 / 3, 256, 4),
        (electra(24, 1024, 16, narrow=1024), 0.25, 256, 4),
        (electra(2, 32, 2, 30, narrow=16), 0.1, 16, 1),
    ],
)
def test_the_generator_is_a_narrower_model(config, share, width, heads):
    with torch.device("meta"):
        model = HeadedEncoder(Encoder(config), {})
        generator = generator_of(model, share)
    block = generator.encoder.config.stack.block
    assert (block.width, block.inner, block.attention.heads) == (width, 4 * width, heads)
    assert len(generator.encoder.stack.blocks) == config.stack.layers
    narrow = config.embedding.width
    assert generator.encoder.embed is model.encoder.embed
    assert (generator.encoder.widen is None) == (narrow == width)
    if generator.encoder.widen is not None:
        assert generator.encoder.widen.weight.shape == (width, narrow)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_generator_of_no_size_is_refused(share):
    with pytest.raises(UsageProblem, match=f"a generator of {share}"):
        generator_of(encoder("replaced"), share)


def test_making_a_generator_leaves_the_model_as_it_is():
    model = encoder("replaced", narrow=16)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator_of(model, 0.5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("narrow", [None, 16, 8])
def test_embeddings_are_one_tensor_everywhere(narrow):
    both = asked(narrow=narrow)
    shared = both.model.encoder.embed.tokens.weight
    assert both.objective.generator.encoder.embed.tokens.weight is shared
    assert sum(parameter is shared for parameter in both.parameters()) == 1  # the optimizer sees it once
    names = [name for name, tensor in weights_of(both).items() if tensor.data_ptr() == shared.data_ptr()]
    assert names == ["model.encoder.embed.tokens.weight"]  # and a checkpoint holds it once


def test_a_checkpoint_brings_both_back():
    one, other = (
        asked(narrow=16),
        Asked(model := encoder("replaced", narrow=16, seed=3), Replaced(HIDING, generator_of(model, 0.5))),
    )
    batch = question(one.objective)
    assert judged(one, batch).loss != judged(other, batch).loss
    set_weights(other, {name: tensor.clone() for name, tensor in weights_of(one).items()}, Path("checkpoint"))
    assert judged(one, batch).loss == judged(other, batch).loss
    assert other.objective.generator.encoder.embed is other.model.encoder.embed


# The question


def test_hidden_pieces_are_masked_or_as_they_are():
    """85% masked and no random words, as the authors do."""
    torch.manual_seed(0)
    ids = torch.randint(3, VOCAB, (100_000,))
    batch = Replaced(HIDING, generator_of(encoder("replaced"))).prepare({"tokens": Tokens(ids, Rows.even(1000, 100))})
    shown, count = batch["tokens"].ids[batch["places"]], len(batch["places"])
    assert abs(count / 100_000 - 0.15) < 0.006
    assert abs((shown == MASK).sum() / count - 0.85) < 0.015
    assert ((shown == MASK) | (shown == batch["words"])).all()


def test_samples_come_as_often_as_they_are_likely():
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    drawn = sampled(chances.log().repeat(20_000, 1))
    shares = drawn.bincount(minlength=5) / len(drawn)
    torch.testing.assert_close(shares, chances, atol=0.02, rtol=0)
    assert shares[4] == 0


@pytest.mark.parametrize("sure_of", ["the truth", "another word"])
def test_only_another_word_is_a_replacement(sure_of):
    """With a generator that always says the same word: where that is the true one, nothing was replaced."""
    both = asked()
    with torch.no_grad():
        both.objective.generator.heads["masked"].bias[7] = 1e4
    ids = torch.full((30,), 7 if sure_of == "the truth" else 8)
    torch.manual_seed(0)
    batch = both.prepare({"tokens": Tokens(ids, Rows.even(3, 10))})
    seen, detect = [], both.objective.detect

    def watched(model, batch, replaced):
        seen.append((batch["tokens"].ids, replaced))
        return detect(model, batch, replaced)

    both.objective.detect = watched
    judged(both, batch)
    [(shown, replaced)] = seen
    hidden = torch.zeros(30, dtype=torch.bool).index_fill(0, batch["places"], True)
    assert hidden.any() and not hidden.all()
    assert torch.equal(shown, torch.where(hidden, 7, ids))  # no mask is left
    assert torch.equal(replaced, hidden & (ids != 7))


def test_the_loss_and_its_parts_by_hand():
    both = asked()
    batch = question(both.objective)
    result = judged(both, batch)
    model, generator, tokens = both.model, both.objective.generator, batch["tokens"]
    logits = generator.scores("masked", generator(tokens, batch["types"])[batch["places"]], tokens.rows)
    torch.manual_seed(1)
    drawn = sampled(logits)
    shown, replaced = tokens.ids.clone(), torch.zeros(len(tokens.ids))
    shown[batch["places"]], replaced[batch["places"]] = drawn, (drawn != batch["words"]).float()
    scores = model.scores("replaced", model(Tokens(shown, tokens.rows), batch["types"]), tokens.rows)[:, 0]
    plain = ~torch.isin(tokens.ids, torch.tensor(SPECIAL))
    chances = torch.where(replaced > 0, scores.sigmoid(), 1 - scores.sigmoid())[plain]
    means = {
        "generator_loss": torch.nn.functional.cross_entropy(logits, batch["words"]),
        "generator_right": (logits.argmax(-1) == batch["words"]).float().mean(),
        "discriminator_loss": -chances.log().mean(),
        "discriminator_right": (chances > 0.5).float().mean(),
        "discriminator_found": (scores > 0)[replaced > 0].float().mean(),
    }
    assert result.parts.keys() == means.keys()
    for name, value in means.items():
        torch.testing.assert_close(result.parts[name] / result.count, value)
    torch.testing.assert_close(result.loss / result.count, means["generator_loss"] + 50 * means["discriminator_loss"])


def test_the_discriminator_s_loss_is_that_of_the_reference_library(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    sizes = {"vocab_size": VOCAB, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32}
    torch.manual_seed(0)
    reference = transformers.ElectraForPreTraining(transformers.ElectraConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.normal_(0, 0.3)
    reference.save_pretrained(tmp_path)
    model = load_published(tmp_path).model
    batch = pairs()
    rows = batch["tokens"].rows
    replaced = torch.rand(rows.total) < 0.2
    answer = reference(
        input_ids=rows.pad(batch["tokens"].ids),
        token_type_ids=rows.pad(batch["types"]),
        attention_mask=rows.real.long(),
        labels=rows.pad(replaced.float()),
    )
    batch["plain"] = torch.ones(rows.total, dtype=torch.bool)  # the reference counts special tokens too
    seen = Replaced(HIDING, generator_of(model)).detect(model, batch, replaced)
    torch.testing.assert_close(seen.loss / seen.count, answer.loss, atol=1e-5, rtol=1e-5)


# Who learns from what


@pytest.mark.parametrize("narrow", [None, 8])
def test_the_generator_learns_nothing_from_the_discriminator(narrow):
    both = asked(narrow=narrow)
    batch = question(both.objective)
    heavy = gradients(both, batch)
    both.objective.weight = 0.0
    light = gradients(both, batch)
    for name in heavy:
        if name.startswith("objective."):
            assert heavy[name].any() and torch.equal(heavy[name], light[name]), name
        elif not name.startswith("model.encoder.embed."):
            assert heavy[name].any() and not light[name].any(), name


def test_the_embedding_learns_from_both():
    both = asked(weight=1.0)
    batch = question(both.objective)
    name = "model.encoder.embed.tokens.weight"
    together = gradients(both, batch)[name]
    both.objective.weight = 0.0
    generator = gradients(both, batch)[name]
    discriminator = together - generator
    assert generator.abs().sum() > 0.1 and discriminator.abs().sum() > 0.1
    assert generator[MASK].any() and not discriminator[MASK].any()  # which the discriminator never sees


def test_a_generator_that_has_learned_learns_no_more():
    model, filler = encoder("replaced"), encoder("masked")
    both = Asked(model, Replaced(HIDING, filler, learned=True)).train()
    assert both.model.training and not filler.training
    result = judged(both, question(both.objective))
    result.loss.backward()
    assert all(p.grad is None for p in filler.parameters()) and model.encoder.embed.tokens.weight.grad.any()
    torch.testing.assert_close(result.loss.detach(), 50 * result.parts["discriminator_loss"])


def test_heads_that_are_missing_are_named():
    both = asked()
    with pytest.raises(
        UsageProblem, match="Replaced needs a model with the head 'replaced', and this one has only mas"
    ):
        both.objective.judge(encoder("masked"), question(both.objective))
    with pytest.raises(UsageProblem, match="Replaced needs a model with the head 'masked', and this one has only repl"):
        Replaced(HIDING, both.model).judge(both.model, question(both.objective))


def test_replacements_are_learned():
    both = asked()
    losses = learn(both, 120, fresh=False)
    assert losses[0] > 20 and mean(losses[-5:]) < 5


class Pairs:
    """Batches without end, for the loop."""

    def at(self, position):
        return pairs(4, position)

    def epoch_of(self, position):
        return divmod(position, 10)


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
    """Masks, samples, and an embedding that is in two places and in the checkpoint once."""

    def run(folder: str, steps: int) -> dict[str, torch.Tensor]:
        constant = OptimizerConfig(rate=1e-3, schedule="constant", warmup=0)
        config = TrainingConfig(steps=steps, report_every=1, save_every=1, optimizer=constant)
        return train(asked(narrow=16), Pairs(), config, tmp_path / folder, reporter=Reporter()).weights

    whole = {name: tensor.clone() for name, tensor in run("whole", 4).items()}
    run("parts", 2)
    resumed = run("parts", 4)
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    told = [json.loads(line) for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in told] == [1, 2, 3, 4]
    for record in told:
        assert record["loss"] == pytest.approx(record["generator_loss"] + 50 * record["discriminator_loss"], rel=1e-5)
