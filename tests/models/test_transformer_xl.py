"""Transformer-XL: reading in segments with a memory, what learns through it and what does not, and its folder."""

from __future__ import annotations

import pytest
import torch

from regard.attention.watch import watch
from regard.checkpoints.files import load_tensors
from regard.config import change, from_dict, to_dict
from regard.errors import UsageProblem
from regard.models.encoder import HeadedEncoder, NextHead
from regard.models.folder import load_published, save_files
from regard.models.published import Published
from regard.models.transformer_xl import FAMILY, PRESETS, Remembered, SegmentEncoder, transformer_xl
from regard.rows import Rows, Tokens

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

VOCAB = 19
TEXTS = [[5, 3, 8, 2, 7, 11, 4, 9, 6, 1], [4, 4, 12, 3, 10, 2, 18, 0, 5, 7], [7, 9, 6, 3, 10, 2, 1, 15, 13, 8]]
RAGGED = [[5, 3, 8, 2, 7], [4], [7, 7, 9, 6, 3, 10, 2, 12], [3, 2]]


def tiny(memory=16, *, window=False, norm_first=False):
    config = transformer_xl(3, 16, 2, 32, vocab=VOCAB, memory=memory, norm_first=norm_first)
    return change(config, "window", window)


def build(config) -> SegmentEncoder:
    """Numbers large enough that a difference would show."""
    torch.manual_seed(0)
    encoder = SegmentEncoder(config).eval()
    for name, parameter in encoder.named_parameters():
        is_norm = "norm" in name and name.endswith("weight")
        torch.nn.init.normal_(parameter, float(is_norm), 0.3)
    return encoder


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def in_segments(encoder, texts, ends):
    """What is read up to each of these places of the texts, a tensor for each text; and what is remembered."""
    state, read = None, []
    for begin, end in zip([0, *ends], [*ends, max(map(len, texts))], strict=True):
        tokens = Tokens.of([text[begin:end] for text in texts])
        states, state = encoder.read(tokens, state)
        read.append(tokens.rows.split(states))
    return [torch.cat(parts) for parts in zip(*read, strict=True)], state


SHAPES = {
    "norm last": tiny(),
    "norm first": tiny(norm_first=True),
    "a window": tiny(4, window=True),
    "shared blocks": change(tiny(), "stack.distinct", 1),
    "narrow": change(tiny(), "embedding.width", 8),
}


@pytest.fixture(params=SHAPES, scope="module")
def encoder(request) -> SegmentEncoder:
    return build(SHAPES[request.param])


# Reading on


@torch.no_grad()
@pytest.mark.parametrize("ends", [[5], [2, 3, 9], list(range(1, 10))], ids=str)
@pytest.mark.parametrize("texts", [TEXTS, RAGGED], ids=["even", "ragged"])
def test_in_segments_it_reads_as_it_does_at_once(encoder, texts, ends):
    """Where the memory holds all that a place may see."""
    tokens = Tokens.of(texts)
    for got, wanted in zip(in_segments(encoder, texts, ends)[0], tokens.rows.split(encoder(tokens)), strict=True):
        close(got, wanted)


@torch.no_grad()
def test_reading_once_is_the_forward_pass_and_the_last_of_its_layers(encoder):
    tokens = Tokens.of(RAGGED)
    layers = list(encoder.layers(tokens))
    assert len(layers) == 4 and torch.equal(layers[-1], encoder(tokens))
    close(encoder.read(tokens)[0], layers[-1])


@torch.no_grad()
@pytest.mark.parametrize("texts", [TEXTS, RAGGED], ids=["even", "ragged"])
def test_each_place_sees_all_of_its_memory_and_its_own_past(texts):
    encoder, memory = build(tiny(3)), 3
    _, state = in_segments(encoder, [text[:5] for text in texts], [])
    tokens = Tokens.of([text[5:] for text in texts])
    with watch(encoder) as seen:
        encoder.read(tokens, state)
    for (weights,) in seen.values():
        for text, row in zip(texts, weights, strict=True):
            past = min(len(text), 5, memory)
            seen_of = (row > 0).sum(-1)  # (H, Q)
            assert seen_of.tolist() == [[past + place + 1 for place in range(row.shape[1])]] * 2


@torch.no_grad()
@pytest.mark.parametrize("ends", [[1], [4, 6], [2, 3, 4]], ids=str)
@pytest.mark.parametrize("texts", [TEXTS, RAGGED], ids=["even", "ragged"])
def test_the_last_places_are_remembered(texts, ends):
    encoder, memory = build(tiny(3)), 3
    _, state = in_segments(encoder, texts, ends)
    assert state.rows.lengths.tolist() == [min(len(text), memory) for text in texts]
    first = state.rows.split(state.states[:, 0])  # of the first layer: what was embedded
    for text, got in zip(texts, first, strict=True):
        close(got, encoder.embed.read(Tokens.of([text[-memory:]])))


@torch.no_grad()
def test_a_memory_without_room_forgets():
    encoder = build(tiny(0))
    parts, state = in_segments(encoder, TEXTS, [5])
    assert state.rows.total == 0
    for part, text in zip(parts, TEXTS, strict=True):
        close(part[5:], encoder(Tokens.of([text[5:]])))


@torch.no_grad()
def test_a_longer_memory_than_in_training_reaches_further():
    encoder = build(tiny(2))
    short, _ = in_segments(encoder, TEXTS, [5])
    encoder.remember(16)
    longer, state = in_segments(encoder, TEXTS, [5])
    close(torch.cat(longer), encoder(Tokens.of(TEXTS)))
    assert not torch.allclose(torch.cat(short), torch.cat(longer), atol=1e-3) and state.rows.longest == 10
    encoder.remember(16, furthest=4)
    clamped, _ = in_segments(encoder, TEXTS, [5])
    close(torch.cat(clamped), encoder(Tokens.of(TEXTS)))
    assert not torch.allclose(torch.cat(clamped), torch.cat(longer), atol=1e-3)


@torch.no_grad()
def test_choosing_rows_of_what_is_remembered(encoder):
    _, state = in_segments(encoder, RAGGED, [3])
    chosen, more = [2, 0, 0, 3], [[1, 2], [3], [3, 4, 5], [6]]
    states, _ = encoder.read(Tokens.of(more), state.select(torch.tensor(chosen)))
    wanted = [encoder(Tokens.of([RAGGED[row] + after]))[-len(after) :] for row, after in zip(chosen, more, strict=True)]
    close(states, torch.cat(wanted))


@torch.no_grad()
@pytest.mark.parametrize("texts", [TEXTS, RAGGED], ids=["even", "ragged"])
def test_what_is_remembered_survives_as_tensors(encoder, texts):
    _, state = in_segments(encoder, texts, [])
    again = encoder.state_of(state.tensors())
    more = Tokens.of([[1, 2]] * len(texts))
    assert isinstance(again, Remembered) and again.rows.longest == state.rows.longest
    assert torch.equal(encoder.read(more, state)[0], encoder.read(more, again)[0])


# Learning


def test_keys_and_values_learn_through_the_memory_and_the_earlier_segment_does_not():
    encoder = build(tiny())
    first, then = Tokens.of([[1, 2, 3]]), Tokens.of([[4]])
    _, state = encoder.read(first)
    encoder.read(then, state)[0].pow(3).sum().backward()
    assert encoder.embed.tokens.weight.grad[4].any() and not encoder.embed.tokens.weight.grad[1:4].any()
    keys = encoder.stack.blocks[2].attention.k.weight
    with_memory = keys.grad.clone()
    encoder.zero_grad()
    encoder.read(then)[0].pow(3).sum().backward()
    assert not torch.allclose(with_memory, keys.grad, atol=1e-3)  # a token alone has nothing to choose from
    assert not state.states.requires_grad and state.detached().states is state.states


def test_gradients_through_the_memory_are_those_of_the_formula():
    """Of one layer, whose memory is the embedding held still: reading at once with that part held still."""
    config = change(tiny(), "stack.layers", 1)
    encoder = build(config)
    _, state = encoder.read(Tokens.of([TEXTS[0][:6]]))
    encoder.read(Tokens.of([TEXTS[0][6:]]), state)[0].pow(3).sum().backward()
    got = {name: p.grad.clone() for name, p in encoder.stack.named_parameters()}
    encoder.zero_grad()
    x = encoder.embed.read(Tokens.of([TEXTS[0]])).detach()
    encoder.stack(x, Rows.of([10]))[0][6:].pow(3).sum().backward()
    for name, parameter in encoder.stack.named_parameters():
        torch.testing.assert_close(got[name], parameter.grad, rtol=1e-4, atol=1e-4)


def test_every_parameter_learns():
    model = language_model(tiny())
    states, state = model.read(Tokens.of(TEXTS))
    states, _ = model.read(Tokens.of(TEXTS), state)
    model.logits(states).pow(3).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_dropout_falls_on_the_last_states_and_not_on_what_is_read_at_rest():
    encoder = build(change(tiny(), "stack.block.dropout", 0.5))
    tokens = Tokens.of(TEXTS)
    assert torch.equal(encoder.read(tokens)[0], encoder.read(tokens)[0])
    share = (encoder.train().read(tokens)[0] == 0).float().mean()
    assert 0.3 < share < 0.7


def test_a_pattern_that_only_a_memory_can_tell_is_learnt():
    """Each segment repeats the one before: without a memory, its random tokens cannot be foreseen."""
    losses = {memory: learnt(memory) for memory in (0, 4)}
    assert losses[4] < 0.8 < 1.5 < losses[0]


def learnt(memory: int) -> float:
    torch.manual_seed(0)
    model = HeadedEncoder(
        SegmentEncoder(transformer_xl(2, 32, 2, 64, vocab=8, memory=memory, dropout=0.0)), {"write": NextHead(32, 8)}
    )
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(120):
        text, rows = torch.randint(8, (32, 4)), Rows.even(32, 4)
        with torch.no_grad():
            _, state = model.read(Tokens(text.flatten(), rows))
        states, _ = model.read(Tokens(text.flatten(), rows), state)
        wanted = text.roll(-1, 1).flatten()
        loss = torch.nn.functional.cross_entropy(model.logits(states), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# Writing


def language_model(config) -> HeadedEncoder:
    (write,) = FAMILY.heads["TransformerXLForNextWord"]
    model = HeadedEncoder(build(config), {"write": write.make(config, {})}).eval()
    for parameter in model.heads.parameters():
        torch.nn.init.normal_(parameter)
    return model


@torch.no_grad()
@pytest.mark.parametrize("name", SHAPES)
def test_stepping_equals_reading(name):
    model = language_model(SHAPES[name])
    prompts, after = [[1], [2, 3, 4], [5, 6, 7, 8, 9]], [[3, 1, 4], [1, 5, 9], [2, 6, 5]]
    state = model.start(Tokens.of(prompts))
    whole = Tokens.of([prompt + row for prompt, row in zip(prompts, after, strict=True)])
    wanted = whole.rows.split(model.logits(model(whole)))
    for place in range(3):
        logits, after_it = model.step(torch.tensor([row[place] for row in after]), state)
        again, _ = model.step(torch.tensor([after[row][place] for row in (2, 0)]), state.select(torch.tensor([2, 0])))
        close(again, logits[[2, 0]])
        close(logits, torch.stack([row[len(prompt) + place] for row, prompt in zip(wanted, prompts, strict=True)]))
        state = after_it


# The folder


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_survives_json(name):
    assert from_dict(type(PRESETS[name]), to_dict(PRESETS[name])) == PRESETS[name]


def test_the_papers_sizes():
    with torch.device("meta"):
        counts = {name: sum(p.numel() for p in SegmentEncoder(c).parameters()) for name, c in PRESETS.items()}
    assert round(counts["transformer-xl-enwik8"] / 1e6) == 41  # the paper: 41M


@pytest.mark.parametrize("width", [16, 8])
@pytest.mark.parametrize("architecture", FAMILY.heads)
def test_a_folder_comes_back_bit_for_bit(tmp_path, architecture, width):
    config = change(change(tiny(7, window=True), "furthest", 40), "embedding.width", width)
    layout = FAMILY.layout(architecture, FAMILY.rules(architecture), FAMILY.heads[architecture])
    torch.manual_seed(1)
    model = layout.make(config, {"heads.classify.out": 3, "heads.tag.out": 3}).eval()
    made = Published(FAMILY, layout, {"model_type": "transformer-xl"}, model, {}, {}, torch.float32)
    save_files(tmp_path / "model", made.files())
    again = load_published(tmp_path / "model")
    assert again.layout.architecture == architecture and again.model.encoder.config == config
    assert again.model.encoder.memory == 7 and isinstance(again.model.encoder, SegmentEncoder)
    save_files(tmp_path / "again", again.files())
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "model" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    tokens = Tokens.of(RAGGED)
    assert torch.equal(again.model(tokens), model(tokens))
    for role in model.heads:
        states = model(tokens)
        assert torch.equal(again.model.scores(role, states, tokens.rows), model.scores(role, states, tokens.rows))
    assert load_tensors(tmp_path / "model" / "model.safetensors").keys() == dict(model.state_dict()).keys()


def test_places_that_memory_cannot_keep_are_refused():
    with pytest.raises(UsageProblem, match="found by distance alone"):
        change(tiny(), "stack.block.attention.positions", "rotary")
    with pytest.raises(UsageProblem, match="memory=-1"):
        change(tiny(), "memory", -1)
    with pytest.raises(UsageProblem, match="a memory of -2"):
        build(tiny()).remember(-2)
