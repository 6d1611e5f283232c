"""The Transformer against torch's own, and against the sizes its paper gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.attention import Attention
from regard.config import change
from regard.models import PRESETS
from regard.models.transformer import Transformer, transformer
from regard.rows import Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

WIDTH, HEADS, INNER, LAYERS, VOCAB = 16, 4, 24, 3, 19
SOURCES, TARGETS = [[3, 9, 4, 11], [5], [8, 2, 2, 18, 7, 6, 3]], [[1, 4], [1, 9, 9, 12, 5], [1]]


def copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def copy_layer(theirs: nn.Module, ours: nn.Module) -> None:
    copy_attention(theirs.self_attn, ours.attention)
    theirs.linear1.load_state_dict(ours.feed.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed.down.state_dict())
    norms = [ours.attention_residual.norm, ours.feed_residual.norm]
    if ours.cross is not None:
        copy_attention(theirs.multihead_attn, ours.cross)
        norms.insert(1, ours.cross_residual.norm)
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


@torch.no_grad()
def pair(norm_first: bool) -> tuple[Transformer, nn.Transformer]:
    """Ours, with every number drawn by chance, and torch's with the same numbers."""
    torch.manual_seed(0)
    ours = Transformer(transformer(LAYERS, WIDTH, HEADS, INNER, vocab=VOCAB, norm_first=norm_first))
    for parameter in ours.parameters():
        parameter.normal_(std=0.3)
    shape = {"batch_first": True, "norm_first": norm_first, "activation": "relu"}
    theirs = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, INNER, **shape)
    for stack, mine in ((theirs.encoder, ours.encoder), (theirs.decoder, ours.decoder)):
        for layer, block in zip(stack.layers, mine.blocks, strict=True):
            copy_layer(layer, block)
        stack.norm = nn.LayerNorm(WIDTH) if norm_first else None
        if norm_first:
            stack.norm.load_state_dict(mine.norm.state_dict())
    return ours, theirs


def embedded(model: Transformer, row: list[int]) -> torch.Tensor:  # (1, T, W), by hand
    places = torch.arange(len(row))[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    waves = torch.stack([places.sin(), places.cos()], -1).flatten(1)
    return (model.embed.tokens.weight[row] * WIDTH**0.5 + waves)[None]


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm last", "norm first"])
def test_it_equals_torchs_transformer(norm_first):
    ours, theirs = pair(norm_first)
    ours.eval(), theirs.eval()
    target = Tokens.of(TARGETS)
    logits = ours.logits(ours(Tokens.of(SOURCES), target))
    for got, source, row in zip(target.rows.split(logits), SOURCES, TARGETS, strict=True):
        causal = nn.Transformer.generate_square_subsequent_mask(len(row))
        states = theirs(embedded(ours, source), embedded(ours, row), tgt_mask=causal, tgt_is_causal=True)
        torch.testing.assert_close(got, states[0] @ ours.embed.tokens.weight.T, rtol=1e-5, atol=1e-5)


def test_its_gradients_equal_torchs():
    ours, theirs = pair(norm_first=False)
    ours.eval(), theirs.eval()
    source, row = SOURCES[0], TARGETS[1]
    ours(Tokens.of([source]), Tokens.of([row])).square().sum().backward()
    with torch.no_grad():
        x, y = embedded(ours, source), embedded(ours, row)
    causal = nn.Transformer.generate_square_subsequent_mask(len(row))
    theirs(x, y, tgt_mask=causal, tgt_is_causal=True).square().sum().backward()
    for block, layer in zip(ours.decoder.blocks, theirs.decoder.layers, strict=True):
        torch.testing.assert_close(block.feed.up.weight.grad, layer.linear1.weight.grad, rtol=1e-4, atol=1e-4)
        mine = torch.cat([line.weight.grad for line in (block.cross.q, block.cross.k, block.cross.v)])
        torch.testing.assert_close(mine, layer.multihead_attn.in_proj_weight.grad, rtol=1e-4, atol=1e-4)


def parameters(config) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


def test_the_base_model_is_as_large_as_the_papers():
    """The paper says 65 million with about 37000 shared tokens.  By hand: the table, and six layers of each kind."""
    width, inner, vocab = 512, 2048, 37000
    attention, norm = 4 * (width * width + width), 2 * width
    feed = 2 * width * inner + inner + width
    by_hand = vocab * width + 6 * (attention + feed + 2 * norm) + 6 * (2 * attention + feed + 3 * norm)
    assert parameters(change(PRESETS["transformer-base"], "embedding.vocab", vocab)) == by_hand == 63_082_496


def test_the_big_model_is_as_large_as_the_papers():
    assert parameters(change(PRESETS["transformer-big"], "embedding.vocab", 37000)) == 214_245_376  # "213 million"


@pytest.mark.parametrize(
    "name, shape",
    [
        ("transformer-base", (6, 512, 8, 2048)),
        ("transformer-big", (6, 1024, 16, 4096)),
        ("transformer-small", (4, 256, 4, 1024)),
        ("transformer-tiny", (4, 128, 4, 256)),
    ],
)
def test_presets_have_their_shapes(name, shape):
    for stack in (PRESETS[name].encoder, PRESETS[name].decoder):
        assert (stack.layers, stack.block.width, stack.block.attention.heads, stack.block.inner) == shape
        assert stack.block.attention.dropout == 0  # the ragged kernel has none


def tiny(**changes):
    config = transformer(1, 16, 2, 32, vocab=VOCAB)
    for path, value in changes.items():
        config = change(config, path, value)
    return Transformer(config)


def test_tables_are_shared_as_the_config_says():
    one, untied = tiny(), tiny(tied=False)
    assert one.embed is one.embed_target and one.out.weight is one.embed.tokens.weight
    assert untied.embed is untied.embed_target and untied.out.weight is not untied.embed.tokens.weight
    two = tiny(target_vocab=7)
    assert two.embed.tokens.weight.shape == (VOCAB, 16) and two.out.weight.shape == (7, 16)
    assert two.out.weight is two.embed_target.tokens.weight


def test_a_token_sees_nothing_that_comes_after_it():
    model = tiny().eval()
    early = model(Tokens.of([[3, 4]]), Tokens.of([[1, 5, 6]]))
    late = model(Tokens.of([[3, 4]]), Tokens.of([[1, 5, 9]]))
    torch.testing.assert_close(early[:2], late[:2])
    assert not torch.allclose(early[2], late[2])
