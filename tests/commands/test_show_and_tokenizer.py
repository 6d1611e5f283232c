"""`regard show` and `regard tokenizer`."""

from __future__ import annotations

import pytest
import torch
from toy import TRAIN

import regard
from regard.commands.show import make_model, show
from regard.config import change
from regard.models import PRESETS
from regard.text.tokenizer import KINDS


def test_without_a_name_the_presets_are_listed(call):
    done = call("show")
    assert done.code == 0 and [line.split()[0] for line in done.out.splitlines()] == list(PRESETS)


WORDS = [name for name, config in PRESETS.items() if hasattr(getattr(config, "embedding", None), "vocab")]


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in WORDS])
def test_presets_that_read_no_text_are_shown_too(name):
    assert f"parameters        {parameters(PRESETS[name]):,}" in show(name).lines()


@pytest.mark.parametrize("name", ["transformer-tiny", "rnn", "bert-tiny", "lstm-tiny"])
def test_the_command_prints_what_the_function_tells(call, name):
    assert call("show", name).out.splitlines() == show(name).lines()


@pytest.mark.parametrize("name", WORDS)
def test_every_preset_is_shown_with_its_parameters(name):
    shown = show(name)
    lines = shown.lines()
    assert lines[0] == type(PRESETS[name]).__name__
    few, more = (parameters(change(PRESETS[name], "embedding.vocab", vocab)) for vocab in (11, 12))
    expected = few + (PRESETS[name].embedding.vocab - 11) * (more - few)  # so many a word, in one table or in two
    assert f"parameters        {expected:,}" in lines
    shared = name.startswith("albert")  # one block for many layers
    assert shown.flops_a_token > 0 or name == "bigram"  # which looks up all that it knows
    assert shared or shown.flops_a_token <= 2 * shown.parameters


def parameters(config) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in make_model(config).parameters())


def test_layers_that_share_a_block_cost_what_they_do():
    shared, once = show("albert-base"), show("albert-base", ("stack.layers=1",))
    assert shared.parameters == once.parameters
    block = 2 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert shared.flops_a_token - once.flops_a_token == 11 * block


def test_settings_are_applied(call):
    plain, changed = call("show", "transformer-base"), call("show", "transformer-base", "--set", "encoder.layers=2")
    assert "  encoder\n    layers: 2\n" in changed.out and "encoder.blocks.2" not in changed.out
    assert "encoder.blocks.5" in plain.out


def test_the_flops_of_one_layer_are_those_counted_by_hand():
    """Two for each weight of four projections (eight in the decoder), two feed-forward matrices, and the output."""
    width, inner, vocab = 128, 256, 100
    shown = show("transformer-tiny", ("embedding.vocab=100", "encoder.layers=1", "decoder.layers=1"))
    assert shown.flops_a_token == 2 * (12 * width * width + 2 * 2 * width * inner + vocab * width)


def test_a_folder_is_shown_as_it_is(call, run_folder):
    done = call("show", run_folder)
    parameters = sum(p.numel() for p in regard.load(run_folder).model.parameters())
    assert done.out.startswith("TransformerConfig\n") and f"parameters        {parameters:,}" in done.out
    refused = call("show", run_folder, "--set", "encoder.layers=2")
    assert refused.code == 2 and "settings change a preset only" in refused.err


@pytest.mark.parametrize(
    "arguments, told",
    [("transformer-bas", "did you mean 'transformer-base'?"),
     ("transformer-base --set encoder.layerz=3", "encoder.layerz: StackConfig has no field 'layerz'"),
     ("transformer-base --set encoder.layers=x", "encoder.layers: expected int, found 'x'"),
     ("transformer-base --set encoder.layers=-1", "layers=-1 in StackConfig"),
     ("transformer-base --set encoder.layers=1000000000", "layers=1000000000 in StackConfig"),
     ("transformer-base --set embedding.vocab=0", "vocab=0 in EmbeddingConfig"),
     ("transformer-base --set encoder.block.width=64", "encoder.block.width=64, decoder.block.width=512"),
     ("rnn --set decoder.two_way=true", "decoder.two_way must be false"),
     ("rnn --set encoder.cell=gru", "encoder.cell=gru, decoder.cell=lstm")],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(call, arguments, told):
    done = call("show", *arguments.split())
    assert (done.code, done.out) == (2, "") and told in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tokenizer_can_be_learned(call, corpus, tmp_path, kind):
    place = tmp_path / "new" / "tokenizer.json"
    size = {"byte-bpe": 270, "words": 20}.get(kind, 45)
    done = call("tokenizer", kind, *(corpus / name for name in TRAIN), "--vocab", size, "--out", place)
    assert done.code == 0, done.err
    learned = regard.Tokenizer.load(place)
    assert done.out == f"{place}: {learned.size} pieces\n" and learned.size <= size
    assert learned.decode(learned.encode("a man sees a dog")) == "a man sees a dog"


def test_a_vocabulary_that_the_text_does_not_fill_is_told_in_a_line(call, corpus, tmp_path):
    done = call("tokenizer", "bpe", corpus / "train.en", "--vocab", 9000, "--out", tmp_path / "tokenizer.json")
    assert done.code == 0 and done.err.startswith("warning: asked for 9000") and done.err.count("\n") == 1


def test_faults_of_tokenizers_are_told(call, corpus, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    assert "all lines are blank" in call("tokenizer", "bpe", empty).err
    small = call("tokenizer", "bpe", corpus / "train.en", "--vocab", 9, "--out", tmp_path / "tokenizer.json")
    assert small.code == 1 and "vocabulary of 9" in small.err and not (tmp_path / "tokenizer.json").exists()
    assert call("tokenizer", "bpee", corpus / "train.en").code == 2
    assert call("tokenizer", "bpe", tmp_path / "missing.txt").code == 1
    assert call("tokenizer", "bpe", corpus / "train.en", "--vocab", 2).code == 2
