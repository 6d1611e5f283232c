"""The parts of a model from its input up, by which a training may treat them differently."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from regard.models import READERS
from regard.models.albert import albert
from regard.models.bert import bert
from regard.models.electra import electra
from regard.models.encoder import Encoder, Head, HeadedEncoder
from regard.models.gpt2 import gpt2


@pytest.mark.parametrize("family", READERS)
def test_every_parameter_is_of_one_part(family):
    config = READERS[family].FAMILY.default
    with torch.device("meta"):
        model = HeadedEncoder(READERS[family].FAMILY.kind(config), {"classify": Head(config.width, None, 2)})
    owned = Counter(parameter for part in model.parts() for parameter in part.parameters())
    assert owned.keys() == set(model.parameters()) and set(owned.values()) == {1}
    assert model.parts()[-1] is model.heads


def test_what_widens_is_of_the_lowest_and_what_norms_of_the_highest():
    encoder = Encoder(electra(2, 16, 2, 20, narrow=8))
    below, *blocks = encoder.parts()
    assert encoder.widen is not None and set(encoder.widen.parameters()) < set(below.parameters())
    assert set(encoder.embed.parameters()) < set(below.parameters())
    assert [set(part.parameters()) for part in blocks] == [set(block.parameters()) for block in encoder.stack.blocks]
    *_, top = Encoder(gpt2(2, 16, 2, 20)).parts()
    assert {name.partition(".")[0] for name, _ in top.named_parameters()} == {"0", "1"}  # a block, and a norm


def test_layers_that_share_a_block_are_one_part():
    encoder = Encoder(albert(4, 16, 2, 20, narrow=8))
    assert encoder.config.layers == 4 and len(encoder.parts()) == 2


def test_telling_the_parts_changes_nothing():
    model = HeadedEncoder(Encoder(bert(2, 16, 2, 20)), {})
    before = [name for name, _ in model.named_parameters()]
    assert len(model.parts()) == 4
    assert [name for name, _ in model.named_parameters()] == before
