"""Language modelling: what is asked, what is carried from step to step, and what AWD-LSTM pays for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.config import change
from regard.data.corpus import Corpus
from regard.data.stream import Streams
from regard.errors import Problem
from regard.models import ENCODERS
from regard.models.heads import new_encoder
from regard.objectives.language import Both, Next, Penalties
from regard.objectives.objective import Asked
from regard.rows import Rows, Tokens
from regard.text.tokenizer import Tokenizer
from regard.training.loop import train
from regard.training.report import Reporter
from regard.training.saving import part_of_rank
from regard.training.settings import OptimizerConfig, TrainingConfig

LINES = ["the cat sat on the mat\n", "a dog ran to the cat\n", "on the mat the dog sat\n"] * 12


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text("".join(LINES))
    tokenizer = Tokenizer.train("words", LINES, 50)
    return Streams(Corpus.make([folder / "text.txt"], tokenizer, folder / "corpus", whole=True), 8, 24)


def model(name: str):
    torch.manual_seed(0)
    config = ENCODERS[name]
    if name == "transformer-xl-small":
        for path, value in (("stack.layers", 2), ("embedding.width", 16), ("stack.block.width", 16),
                            ("stack.block.inner", 32), ("stack.block.attention.heads", 2), ("memory", 8)):  # fmt: skip
            config = change(config, path, value)
    family = "transformer-xl" if name.startswith("transformer") else "lstm"
    config = replace(config, embedding=replace(config.embedding, vocab=20))
    return new_encoder(family, config, {"write"}).model


@pytest.mark.parametrize("name", ["lstm-tiny", "transformer-xl-small"])
def test_rows_go_on_where_they_stood(streams, name):
    """A batch that goes on is told as if the text had been read from its beginning."""
    language = model(name).eval()
    asked = Asked(language, Next())
    asked.objective.train()  # so that it carries; the model is as in use
    with torch.no_grad():
        judged = [asked(streams.at(position)) for position in range(2)]
        rows = [streams.at(position)["tokens"].tolist() for position in range(2)]
        ids = torch.tensor([a + b for a, b in zip(*rows, strict=True)])
        states, _ = language.read(Tokens(ids.flatten(), Rows.even(3, 16)))
        logits = language.logits(states).view(3, 16, -1)[:, 8:]
        wanted = streams.at(1)["wanted"].view(3, 8)
    expected = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
    torch.testing.assert_close(judged[1].loss, expected, rtol=1e-5, atol=1e-5)
    assert not any(tensor.requires_grad for tensor in asked.objective.carried().values())


def trained(folder, streams, name, steps, reporter=None):
    optimizer = OptimizerConfig(rate=1e-2, schedule="constant", warmup=0)
    config = TrainingConfig(steps=steps, save_every=3, optimizer=optimizer)
    return train(Asked(model(name), Next()), streams, config, folder, reporter=reporter or Reporter())


@pytest.mark.parametrize("name", ["lstm-tiny", "transformer-xl-small"])
def test_a_resumed_run_carries_on(streams, tmp_path, name):
    once = trained(tmp_path / "once", streams, name, 6).weights
    trained(tmp_path / "twice", streams, name, 3)
    twice = trained(tmp_path / "twice", streams, name, 6).weights
    assert all(torch.equal(once[key], twice[key]) for key in once)


@pytest.mark.parametrize("name", ["lstm-tiny", "transformer-xl-small"])
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_damaged_carried_state_is_named_and_the_checkpoint_before_is_used(streams, tmp_path, name, damage):
    whole = trained(tmp_path / "whole", streams, name, 6).weights
    trained(tmp_path / "run", streams, name, 5)
    place = tmp_path / "run/checkpoints/step-00000005/carried-0.safetensors"
    content = bytearray(place.read_bytes())
    content[-1] ^= 1
    place.unlink() if damage == "missing" else place.write_bytes(content[:-9] if damage == "cut" else content)
    said = []
    reporter = Reporter()
    reporter.say = said.append
    resumed = trained(tmp_path / "run", streams, name, 6, reporter).weights
    assert str(place) in said[0] and "Resuming after step 3." in said
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_a_state_that_no_manifest_knows_of_is_missed(streams, tmp_path):
    """A checkpoint without the state that its rows need is refused, not gone on from with other numbers."""
    trained(tmp_path, streams, "lstm-tiny", 5)
    folder = tmp_path / "checkpoints/step-00000005"
    (folder / "carried-0.safetensors").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["files"]["carried-0.safetensors"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Problem, match="was not saved with the checkpoint"):
        trained(tmp_path, streams, "lstm-tiny", 6)


def test_another_number_of_ranks_takes_up_what_was_carried_by_turn():
    """Two ranks of one turn each, and one rank of two turns, have the same streams; what has no turn is a rank's."""
    one = {"0.0": torch.zeros(1), "0.1": torch.ones(1), "low": torch.full((1,), 7)}
    two = {"1.0": torch.full((1,), 2.0), "1.1": torch.full((1,), 3.0), "low": torch.full((1,), 8)}
    assert part_of_rank([one, two], 0, 1) == one | two | {"low": one["low"]}
    assert part_of_rank([one | two | {"low": one["low"]}], 1, 2) == two | {"low": one["low"]}
    assert part_of_rank([one, two], 1, 2) == two
    assert part_of_rank([], 0, 1) == {}


def test_both_ways_tell_their_neighbours(streams):
    torch.manual_seed(0)
    config = ENCODERS["bilstm-tiny"]
    config = replace(config, embedding=replace(config.embedding, vocab=20))
    two = new_encoder("lstm", config, {"write"}).model.eval()
    batch = streams.at(0)
    with torch.no_grad():
        result = Both().judge(two, Both().prepare(batch))
        forward, backward = two.encoder.both(batch["tokens"])
        ids = batch["tokens"].ids.view(3, 8)
        after = F.cross_entropy(two.logits(forward), batch["wanted"], reduction="sum")
        before = two.logits(backward).view(3, 8, -1)[:, 1:]
        before = F.cross_entropy(before.flatten(0, 1), ids[:, :-1].flatten(), reduction="sum")
    torch.testing.assert_close(result.loss, after + before)
    assert result.count == 3 * 8 + 3 * 7


def test_penalties_are_the_papers():
    rows, raw = Rows.of([3, 2]), torch.randn(5, 4)
    states = raw * torch.tensor([0.0, 2.0, 0.0, 2.0])
    changes = torch.stack([raw[1] - raw[0], raw[2] - raw[1], raw[4] - raw[3]])
    expected = 2 * states.square().mean() + changes.square().mean()
    torch.testing.assert_close(Penalties()(raw, states, rows), expected)


def test_what_is_paid_is_told_apart(streams):
    language = model("lstm-tiny")
    paid = Asked(language, Next(Penalties(2.0, 1.0))).eval()
    plain = Asked(language, Next()).eval()
    batch = streams.at(0)
    result, told = paid(batch), plain(batch)
    torch.testing.assert_close(result.parts["told"], told.loss.detach())
    assert result.loss > told.loss
