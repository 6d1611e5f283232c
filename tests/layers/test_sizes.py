"""What configs refuse, alone and together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.config import change
from regard.errors import UsageProblem
from regard.models.seq2seq import Seq2Seq, seq2seq
from regard.models.transformer import Transformer, transformer

TRANSFORMER, RECURRENT = transformer(1, 16, 2, 32, vocab=11), seq2seq("dot", width=16, vocab=11)


@pytest.mark.parametrize("value", [0, -1, 10**9])
@pytest.mark.parametrize(
    "path",
    ["embedding.vocab", "embedding.width", "embedding.longest", "target_vocab", "encoder.layers", "encoder.block.width",
     "decoder.block.inner"],
)  # fmt: skip
def test_a_size_of_a_transformer(path, value):
    with pytest.raises(UsageProblem, match=f"^{path.rpartition('.')[2]}={value} in "):
        change(TRANSFORMER, path, value)


@pytest.mark.parametrize("path", ["embedding.vocab", "target_vocab", "encoder.width", "decoder.layers"])
def test_a_size_of_a_recurrent_model(path):
    with pytest.raises(UsageProblem, match=f"^{path.rpartition('.')[2]}=0 in "):
        change(RECURRENT, path, 0)


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("path", ["dropout", "embedding.dropout", "encoder.dropout"])
def test_a_share(path, value):
    with pytest.raises(UsageProblem, match=f"^dropout={value} in "):
        change(RECURRENT, path, value)


@pytest.mark.parametrize("config", [TRANSFORMER.encoder.block, RECURRENT], ids=["block", "recurrent"])
@pytest.mark.parametrize("name, value", [("heads", 0), ("size", -3), ("dropout", 2.0)])
def test_the_attention_of_a_block_and_of_a_recurrent_model(config, name, value):
    with pytest.raises(UsageProblem, match=f"^{name}={value} in AttentionConfig"):
        replace(config, attention=replace(config.attention, **{name: value}))


@pytest.mark.parametrize(
    "model, path, value, told",
    [(Transformer, "embedding.width", 8, "embedding.width=8, encoder.block.width=16, decoder.block.width=16"),
     (Transformer, "encoder.block.width", 8, "encoder.block.width=8"),
     (Transformer, "encoder.block.attention.heads", 3, "width 16 does not divide into 3 heads"),
     (Transformer, "encoder.block.cross", True, "encoder.block.cross must be false"),
     (Transformer, "decoder.block.cross", False, "decoder.block.cross"),
     (Transformer, "decoder.causal", False, "decoder.causal"),
     (Seq2Seq, "decoder.width", 8, "decoder.width=8"),
     (Seq2Seq, "decoder.cell", "gru", "encoder.cell=lstm, decoder.cell=gru"),
     (Seq2Seq, "encoder.layers", 2, "encoder.layers=2, decoder.layers=1"),
     (Seq2Seq, "decoder.two_way", True, "decoder.two_way must be false"),
     (Seq2Seq, "attention.heads", 3, "width 16 does not divide into 3 heads")],
)  # fmt: skip
def test_parts_that_do_not_fit_each_other(model, path, value, told):
    """Asked only of the whole: settings that belong together are changed one after the other."""
    config = change(TRANSFORMER if model is Transformer else RECURRENT, path, value)
    with pytest.raises(UsageProblem, match=told):
        model(config)
