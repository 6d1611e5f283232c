"""Recurrent language models: what they read, in parts or at once, one way or both; their heads; their folders."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.config import change, from_dict, to_dict
from regard.errors import UsageProblem
from regard.layers.pooling import concat, last
from regard.models.folder import load_published, save_files
from regard.models.heads import new_encoder, with_heads
from regard.models.lstm import PRESETS, LstmConfig, awd_lstm, lstm
from regard.rows import Rows, Tokens

VOCAB = 17
ROWS = [[5, 3, 8, 2], [4], [7, 7, 9, 6, 3, 10, 2], [3, 2]]
TOKENS = Tokens.of(ROWS)
CONFIGS = {
    "vanilla": lstm(8, 1, cell="vanilla", vocab=VOCAB),
    "gru": lstm(8, 2, cell="gru", vocab=VOCAB),
    "lstm": lstm(8, 2, vocab=VOCAB),
    "untied": replace(lstm(8, 2, vocab=VOCAB), tied=False),
    "awd": awd_lstm(8, 12, 3, VOCAB),
    "backward": lstm(8, 2, way="backward", vocab=VOCAB),
    "both": lstm(8, 2, way="both", vocab=VOCAB),
}
FORWARD = [name for name, config in CONFIGS.items() if config.way == "forward"]


def model_of(name: str, role: str = "write", outputs: int = 3):
    torch.manual_seed(0)
    return new_encoder("lstm", CONFIGS[name], {role}, outputs).model


def close(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", FORWARD)
def test_steps_say_what_reading_at_once_says(name):
    """Rows that are over are dropped from the state."""
    model = model_of(name)
    wanted = TOKENS.rows.split(model.logits(model(TOKENS)))
    state, there = model.start(Tokens.of([row[:1] for row in ROWS])), list(range(len(ROWS)))
    for place in range(1, 7):
        still = [row for row in there if place < len(ROWS[row])]
        state = state.select(torch.tensor([there.index(row) for row in still]))
        logits, state = model.step(torch.tensor([ROWS[row][place] for row in still]), state)
        for row, said in zip(still, logits, strict=True):
            close(said, wanted[row][place])
        there = still


@torch.no_grad()
@pytest.mark.parametrize("name", FORWARD)
def test_a_prompt_may_be_empty_and_a_state_is_a_value(name):
    model = model_of(name)
    state = model.start(Tokens.of([[], [4], []]))
    ids = torch.tensor([5, 6, 5])
    logits, _ = model.step(ids, state)
    again, _ = model.step(ids, state.select(torch.tensor([2, 1, 0])))
    close(again, logits)
    close(logits[:1], model.logits(model(Tokens.of([[5]]))))
    assert torch.equal(model.step(ids, state)[0], logits)


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_alone_is_the_same_row_in_a_batch(name):
    model = model_of(name)
    for layer, states in enumerate(model.encoder.layers(TOKENS)):
        for got, row in zip(TOKENS.rows.split(states), ROWS, strict=True):
            close(got, list(model.encoder.layers(Tokens.of([row])))[layer])


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_layers_are_as_many_and_as_wide_as_the_config_says(name):
    config, encoder = CONFIGS[name], model_of(name).encoder
    layers, ways = list(encoder.layers(TOKENS)), 2 if name == "both" else 1
    widths = [config.embedding.width, *config.recurrent.widths]
    assert [layer.shape for layer in layers] == [(len(TOKENS.ids), ways * width) for width in widths]
    assert len(layers) == config.layers + 1 and layers[-1].shape[1] == config.width
    close(layers[0], torch.cat([encoder.embed.tokens(TOKENS.ids)] * ways, -1))
    assert torch.equal(encoder(TOKENS), layers[-1])


@torch.no_grad()
def test_both_ways_are_two_models_that_never_meet():
    """Each state is that of a model that has one way alone."""
    encoder = model_of("both").encoder
    forward, backward = encoder.both(TOKENS)
    for way, states in enumerate((forward, backward)):
        alone = model_of("backward" if way else "lstm").encoder
        alone.embed.load_state_dict(encoder.embed.state_dict())
        alone.ways[0].load_state_dict(encoder.ways[way].state_dict())
        close(states, alone(TOKENS))
    assert forward.shape == backward.shape == (len(TOKENS.ids), 8)
    assert model_of("both").logits(backward).shape == (len(TOKENS.ids), VOCAB)


@torch.no_grad()
def test_a_state_has_read_its_own_side_only():
    encoder, rows = model_of("both").encoder, [row for row in ROWS if len(row) > 2]
    was, now = Tokens.of(rows), Tokens.of([[row[0], 11, *row[2:]] for row in rows])  # another second word
    first, last_ones = was.rows.first, was.rows.last
    (forward, backward), (forward_now, backward_now) = encoder.both(was), encoder.both(now)
    close(forward_now[first], forward[first])
    close(backward_now[last_ones], backward[last_ones])
    assert not torch.allclose(forward_now[last_ones], forward[last_ones])
    assert not torch.allclose(backward_now[first], backward[first])


@pytest.mark.parametrize("name", ["backward", "both"])
def test_only_forward_models_read_by_parts_and_only_two_way_ones_read_both(name):
    with pytest.raises(UsageProblem, match="cannot read by parts"):
        model_of(name).read(TOKENS)
    with pytest.raises(UsageProblem, match="but one way"):
        model_of("lstm").encoder.both(TOKENS)


def test_what_comes_out_is_dropped_once_and_raw_states_are_there_for_penalties():
    encoder, even = model_of("awd").encoder.train(), Tokens(torch.randint(VOCAB, (12,)), Rows.even(3, 4))
    for tokens in (TOKENS, even):
        torch.manual_seed(1)
        raw, _ = encoder.read_raw(tokens)
        dropped = encoder.dropped(raw, tokens.rows)
        torch.manual_seed(1)
        assert torch.equal(encoder.read(tokens)[0], dropped)
        gone = dropped == 0
        assert gone.any() and not (raw == 0).any()
        assert all(len(row.unique(dim=0)) == 1 for row in tokens.rows.split(gone))
    encoder.eval()
    assert torch.equal(encoder.read_raw(even)[0], encoder.read(even)[0])


def test_whole_words_are_dropped_wherever_they_stand():
    torch.manual_seed(0)
    config = change(change(awd_lstm(8, 12, 3, VOCAB), "word_dropout", 0.5), "embedding.dropout", 0.0)
    encoder = new_encoder("lstm", config, {"write"}).model.encoder.train()
    ids = torch.randint(VOCAB, (200,))
    gone = (encoder.embedded(Tokens(ids, Rows.even(2, 100))) == 0).all(-1)
    fates = {id: set(gone[ids == id].tolist()) for id in ids.tolist()}
    assert all(len(fate) == 1 for fate in fates.values()) and set.union(*fates.values()) == {True, False}


def test_a_state_goes_into_tensors_and_back_and_is_let_go():
    model = model_of("awd").train()
    _, state = model.read(TOKENS)
    again = model.encoder.state_of(state.tensors())
    assert len(again.layers) == 3 and all(map(torch.equal, again.tensors(), state.tensors()))
    assert state.tensors()[0].requires_grad and not any(part.requires_grad for part in state.detached().tensors())


@torch.no_grad()
@pytest.mark.parametrize("way", ["forward", "backward", "both"])
def test_a_classifier_reads_the_state_that_has_read_all(way):
    config = lstm(8, 1, way=way, vocab=VOCAB)
    model = new_encoder("lstm", config, {"classify"}, 3).model
    states, rows, head = model(TOKENS), TOKENS.rows, model.heads["classify"]
    forward, backward = states[:, :8], states[:, -8:]
    wanted = {"forward": [forward[rows.last]], "backward": [backward[rows.first]]}
    wanted["both"] = wanted["forward"] + wanted["backward"]
    close(model.scores("classify", states, rows), head.out(torch.cat(wanted[way], -1)))


@torch.no_grad()
def test_ulmfits_classifier_is_its_formula():
    model = model_of("awd", "classify")
    head, states, rows = model.heads["classify"], model(TOKENS), TOKENS.rows
    for norm in (head.norm, head.hidden_norm):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)

    def normed(x, norm):
        return (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias

    hidden = head.dense(normed(concat(states, rows), head.norm)).relu()
    assert hidden.shape == (4, 50)
    close(model.scores("classify", states, rows), head.out(normed(hidden, head.hidden_norm)))


def test_one_example_alone_can_be_learned_from():
    model = model_of("awd", "classify").train()
    one = Tokens.of(ROWS[:1])
    assert model.scores("classify", model(one), one.rows).isfinite().all()


@pytest.mark.parametrize("role", ["write", "classify", "choose", "tag"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_comes_back_bit_for_bit(tmp_path, name, role):
    torch.manual_seed(0)
    published = new_encoder("lstm", CONFIGS[name], {role}, 3)
    save_files(tmp_path / "model", published.files())
    again = load_published(tmp_path / "model")
    assert again.model.encoder.config == CONFIGS[name] and again.layout == published.layout
    assert again.files()["model.safetensors"].keys() == published.files()["model.safetensors"].keys()
    with torch.no_grad():
        wanted, got = (one.model.scores(role, one.model(TOKENS)[:, -8:] if role == "write" else one.model(TOKENS),
                                        TOKENS.rows) for one in (published, again))  # fmt: skip
    assert torch.equal(wanted, got)


def test_a_language_model_becomes_a_classifier_with_its_own_weights():
    torch.manual_seed(0)
    published = new_encoder("lstm", CONFIGS["awd"], {"write"})
    classifier, fresh = with_heads(published, {"classify"}, 2)
    assert fresh and all(name.startswith("heads.classify.") for name in fresh)
    with torch.no_grad():
        assert torch.equal(published.model(TOKENS), classifier.model(TOKENS))


def test_presets_are_as_published():
    with torch.device("meta"):
        size = sum(p.numel() for p in new_encoder("lstm", PRESETS["awd-lstm"], {"write"}).model.parameters())
    assert size == 24_221_600  # the paper's 24 million
    config = PRESETS["awd-lstm"]
    assert config.recurrent.widths == [1150, 1150, 400] and config.embedding.width == 400
    assert all(from_dict(LstmConfig, to_dict(config)) == config for config in PRESETS.values())


def test_tied_words_must_be_as_wide_as_the_last_layer():
    with pytest.raises(UsageProblem, match=r"embedding\.width=9, recurrent\.last=8"):
        new_encoder("lstm", change(CONFIGS["lstm"], "embedding.width", 9), {"write"})
    with torch.no_grad():
        model = new_encoder("lstm", change(CONFIGS["untied"], "embedding.width", 9), {"write"}).model
        assert model.logits(model.read(TOKENS)[0]).shape == (len(TOKENS.ids), VOCAB)
        assert torch.equal(last(model(TOKENS), TOKENS.rows), model.read(TOKENS)[0][TOKENS.rows.last])


def test_half_precision_reads_and_learns():
    model = model_of("awd").train()
    with torch.autocast("cpu", torch.bfloat16):
        states, _ = model.read(TOKENS)
        model.logits(states).float().logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
