"""wav2vec 2.0 beside the reference library, on tiny models with large numbers; and rows that do not know each other."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention.watch import watch
from regard.checkpoints.files import load_tensors, write_folder
from regard.errors import Problem, UsageProblem
from regard.layers.waves import Waves, WavesConfig
from regard.models.folder import load_published
from regard.models.heads import new_encoder, with_heads
from regard.models.hearing import HearingConfig
from regard.models.wav2vec2 import PRESETS
from regard.objectives.contrast import Contrast
from regard.objectives.ctc import CTC
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(1)

TINY = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "conv_dim": (8, 12, 8), "conv_kernel": (10, 3, 2), "conv_stride": (5, 2, 2), "layer_norm_eps": 1e-3,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "vocab_size": 11,
    "codevector_dim": 8, "proj_codevector_dim": 12, "num_codevectors_per_group": 5, "num_negatives": 6,
    "mask_time_prob": 0.5, "mask_time_length": 3,
}  # fmt: skip
SHAPES = [
    {"feat_extract_norm": norm, "do_stable_layer_norm": stable, "conv_bias": norm == "layer"}
    for norm in ("group", "layer")
    for stable in (False, True)
] + [{"num_conv_pos_embeddings": 7, "hidden_act": "relu", "mask_time_prob": 0.0}]
LENGTHS = [403, 90, 250, 800]
WAVES = [torch.randn(length, generator=torch.Generator().manual_seed(length)) for length in LENGTHS]
ARCHITECTURES = ["Wav2Vec2Model", "Wav2Vec2ForPreTraining", "Wav2Vec2ForCTC"]


def reference(architecture: str, **settings):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, architecture)
    torch.manual_seed(0)
    model = kind(kind.config_class(**TINY | settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name and name.endswith("weight")), 0.3)
    return model


@pytest.fixture(params=[(a, s) for a in ARCHITECTURES for s in SHAPES], ids=str)
def case(request, tmp_path):
    architecture, settings = request.param
    model = reference(architecture, **settings)
    model.save_pretrained(tmp_path / "theirs")
    return model, load_published(tmp_path / "theirs"), tmp_path


def heard(published, waves=WAVES):
    with torch.no_grad():
        return published.model.encoder.hear(torch.cat(waves), [len(wave) for wave in waves])


@torch.no_grad()
def test_every_layer_and_the_letters_agree_row_by_row(case):
    model, published, _ = case
    ours, rows = heard(published), heard(published).rows
    layers = [rows.split(layer) for layer in published.model.encoder.layers(torch.cat(WAVES), LENGTHS)]
    letters = published.layout.architecture == "Wav2Vec2ForCTC" and published.model.scores(
        "transcribe", ours.states, rows
    )
    for row, wave in enumerate(WAVES):
        answer = model(wave[None], output_hidden_states=True)
        for layer, states in zip(layers[:-1], answer.hidden_states, strict=False):
            torch.testing.assert_close(layer[row], states[0], atol=1e-5, rtol=0)
        if letters is not False:
            torch.testing.assert_close(rows.split(letters)[row], answer.logits[0], atol=1e-5, rtol=0)
        if "last_hidden_state" in answer:
            torch.testing.assert_close(rows.split(ours.states)[row], answer.last_hidden_state[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(rows.split(ours.features)[row], answer.extract_features[0], atol=1e-5, rtol=0)


def test_a_folder_goes_back_as_it_came(case):
    model, published, folder = case
    files, theirs = published.files(), folder / "theirs"
    tensors = load_tensors(theirs / "model.safetensors")
    assert files["model.safetensors"].keys() == tensors.keys()
    assert all(torch.equal(files["model.safetensors"][name], tensors[name]) for name in tensors)
    assert json.loads(files["config.json"]) == json.loads((theirs / "config.json").read_text())
    write_folder(folder / "ours", files)
    _, told = type(model).from_pretrained(folder / "ours", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told


def test_the_older_names_of_normed_weights(tmp_path):
    model = reference("Wav2Vec2ForCTC")
    model.save_pretrained(tmp_path / "new")
    tensors = load_tensors(tmp_path / "new" / "model.safetensors")
    place = "wav2vec2.encoder.pos_conv_embed.conv"
    older = {f"{place}.weight_{letter}": tensors.pop(f"{place}.parametrizations.weight.original{number}")
             for number, letter in enumerate("gv")} | tensors  # fmt: skip
    write_folder(
        tmp_path / "old", {"config.json": (tmp_path / "new" / "config.json").read_bytes(), "model.safetensors": older}
    )
    old, new = load_published(tmp_path / "old"), load_published(tmp_path / "new")
    assert torch.equal(heard(old).states, heard(new).states)
    assert old.files()["model.safetensors"].keys() == older.keys()
    more, fresh = with_heads(old, {"contrast"})
    assert all(name.startswith(("quantizer", "project")) for name in fresh)
    assert torch.equal(heard(more).states, heard(new).states)


@torch.no_grad()
def test_pretraining_agrees_with_masks_and_negatives_fixed(tmp_path):
    model = reference("Wav2Vec2ForPreTraining")
    model.save_pretrained(tmp_path)
    published = load_published(tmp_path)
    config, objective = published.model.encoder.config, Contrast(published.model.encoder.config).eval()
    length, rows = 800, 2
    waves = torch.stack([WAVES[3], WAVES[3].flip(0) * 2])
    frames = config.waves.frames(length)
    batch = objective.prepare({"wave": waves.flatten(), "lengths": [length] * rows})
    hidden = torch.zeros(rows * frames, dtype=torch.bool)
    hidden[batch["places"]] = True
    negatives = torch.zeros(rows * frames, batch["negatives"].shape[1], dtype=torch.long)
    negatives[batch["places"]] = batch["places"][batch["negatives"]]
    answer = model(
        waves, mask_time_indices=hidden.view(rows, frames), sampled_negative_indices=negatives.view(rows, frames, -1)
    )
    result = objective.judge(published.model, batch)
    torch.testing.assert_close(result.loss, answer.loss, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(result.parts["contrast_loss"], answer.contrastive_loss, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(result.parts["diversity_loss"], answer.diversity_loss, atol=1e-5, rtol=1e-5)
    book = published.model.heads["contrast"]
    states = book.of_states(published.model.encoder.hear(batch["wave"], batch["lengths"], batch["places"]).states)
    torch.testing.assert_close(states, answer.projected_states.flatten(0, 1), atol=1e-5, rtol=0)


def test_the_loss_of_letters_agrees(tmp_path):
    model = reference("Wav2Vec2ForCTC")
    model.save_pretrained(tmp_path)
    published = load_published(tmp_path)
    letters = [[3, 4, 4, 5], [6, 7]]
    objective = CTC(published.model.encoder.config, blank=0).eval()
    batch = {"wave": torch.cat([WAVES[0], WAVES[0] * 2]), "lengths": [403, 403], "letters": Tokens.of(letters)}
    result = objective.judge(published.model, objective.prepare(batch))
    wanted = torch.tensor([[3, 4, 4, 5], [6, 7, -100, -100]])
    answer = model(torch.stack([WAVES[0], WAVES[0] * 2]), labels=wanted)
    torch.testing.assert_close(result.loss, answer.loss, atol=1e-4, rtol=1e-5)
    result.loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in published.model.parameters())


# Rows know nothing of each other


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_a_row_alone_is_the_row_in_a_batch(tmp_path, norm):
    reference("Wav2Vec2Model", feat_extract_norm=norm).save_pretrained(tmp_path)
    published = load_published(tmp_path)
    together = heard(published)
    for row, wave in enumerate(WAVES):
        torch.testing.assert_close(
            together.rows.split(together.states)[row], heard(published, [wave]).states, atol=1e-5, rtol=0
        )


def test_frames_are_counted_as_the_reference_counts_them():
    config = reference("Wav2Vec2Model").config
    waves = WavesConfig(tuple(config.conv_dim), tuple(config.conv_kernel), tuple(config.conv_stride))
    model = reference("Wav2Vec2Model")
    for samples in range(waves.reach, 300):
        assert waves.frames(samples) == int(model._get_feat_extract_output_lengths(torch.tensor(samples)))
    assert waves.frames(waves.reach - 1) == 0 and WavesConfig().reach == 400 and WavesConfig().stride == 320


def test_gradients_of_a_row_do_not_depend_on_its_neighbours():
    model = new_encoder("wav2vec2", PRESETS["wav2vec2-tiny"], set()).model
    waves = [torch.randn(1200), torch.randn(2000)]

    def gradient(some, row):
        model.zero_grad()
        found = model.encoder.hear(torch.cat(some), [len(wave) for wave in some])
        found.rows.split(found.states)[row].square().sum().backward()
        return torch.cat([p.grad.flatten() for p in model.encoder.parameters() if p.grad is not None])

    torch.testing.assert_close(gradient(waves, 1), gradient(waves[1:], 0), atol=1e-3, rtol=1e-4)


def test_it_can_be_watched_and_its_output_is_unchanged():
    model = new_encoder("wav2vec2", PRESETS["wav2vec2-tiny"], set()).model
    wave = torch.randn(2400)
    with torch.no_grad():
        unseen = model.encoder(wave, [2400])
        with watch(model) as seen:
            assert torch.equal(model.encoder(wave, [2400]), unseen)
    frames = PRESETS["wav2vec2-tiny"].waves.frames(2400)
    assert len(seen) == 4 and all(calls[0][0].shape[-2:] == (frames, frames) for calls in seen.values())


# What cannot be


def test_an_adapter_is_refused(tmp_path):
    reference("Wav2Vec2Model").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"add_adapter": True}))
    with pytest.raises(Problem, match="add_adapter"):
        load_published(tmp_path)


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(UsageProblem, match="give each layer one of each"):
        Waves(WavesConfig((8, 8), (3,), (2, 2)))
    with pytest.raises(UsageProblem, match="strides=\\(0,\\)"):
        WavesConfig((8,), (3,), (0,))
    with pytest.raises(UsageProblem, match="each must have 400"):
        new_encoder("wav2vec2", HearingConfig(), set()).model.encoder(torch.zeros(399), [399])


def test_presets_have_the_published_sizes():
    counts = {"wav2vec2-base": 94_371_712, "wav2vec2-large-lv60": 315_438_720}
    for name, count in counts.items():
        with torch.device("meta"):
            model = new_encoder("wav2vec2", PRESETS[name], set()).model
        assert sum(p.numel() for p in model.parameters()) == count, name
    assert np.isclose(PRESETS["wav2vec2-tiny"].waves.stride / 8000, 0.01)


@pytest.mark.parametrize("name", ["wav2vec2-tiny", "wav2vec2-small"])
def test_frames_of_small_presets_tell_how_loud_it_is(name):
    """A norm of each frame behind a convolution without a bias takes all loudness away."""
    torch.manual_seed(0)
    wave, deaf = torch.randn(2400), replace(PRESETS[name].waves, bias=False)
    differs = {}
    for config in (PRESETS[name].waves, deaf):
        waves = Waves(config)
        loud, quiet = (waves(some, [2400])[0] for some in (wave, 0.1 * wave))
        differs[config.bias] = ((loud - quiet).norm() / loud.norm()).item()
    assert differs[True] > 0.2 and differs[False] < 0.05
