"""ViT and DeiT: the reference library's numbers, folders that go back as they came, pictures of several sizes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from regard.attention.watch import watch
from regard.checkpoints.files import load_tensors, write_folder
from regard.config import change, from_dict, to_dict
from regard.errors import Problem, UsageProblem
from regard.layers.patches import Pictures
from regard.models import PUBLISHED, SEERS, VISION, family_of
from regard.models.folder import load_published
from regard.models.heads import new_encoder

os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(1)

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 12,
    "patch_size": 4,
    "layer_norm_eps": 1e-3,
}
CASES = [architecture for family in ("vit", "deit") for architecture in PUBLISHED[family].heads]
CLOSE = {"atol": 1e-5, "rtol": 0}


def reference_model(architecture: str, **settings):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, architecture)
    torch.manual_seed(0)
    model = kind(kind.config_class(**TINY | {"num_labels": 3} | settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.3)
    return model


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    reference = reference_model(request.param)
    reference.save_pretrained(folder)
    return folder, reference, load_published(folder)


def pixels(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def check_numbers(published, reference, given: torch.Tensor, **wishes) -> None:
    answer = reference(pixel_values=given, output_hidden_states=True, **wishes)
    pictures, model = Pictures((given,)), published.model
    rows = model.encoder.rows(pictures)
    layers = list(model.encoder.layers(pictures))
    for layer, states in zip(layers[:-1], answer.hidden_states, strict=False):
        torch.testing.assert_close(layer, states.flatten(0, 1), **CLOSE)
    assert torch.equal(model(pictures), layers[-1])
    if "last_hidden_state" in answer:
        torch.testing.assert_close(layers[-1], answer.last_hidden_state.flatten(0, 1), **CLOSE)
    scores = {role: model.scores(role, layers[-1], rows) for role in model.heads}
    theirs = {"pool": "pooler_output", "classify": "logits"}
    if "taught" in scores:
        theirs = {"classify": "cls_logits", "taught": "distillation_logits"}
        torch.testing.assert_close((scores["classify"] + scores["taught"]) / 2, answer.logits, **CLOSE)
    for role, found in scores.items():
        torch.testing.assert_close(found, answer[theirs[role]], **CLOSE)


def test_every_layer_and_head_agrees_with_the_reference(case):
    _, reference, published = case
    assert published.layout.architecture == type(reference).__name__
    check_numbers(published, reference, pixels(2, 3, 12, 12))


@pytest.mark.parametrize("size", [(20, 12), (8, 28)])
def test_positions_are_resized_as_the_reference_does(case, size):
    _, reference, published = case
    check_numbers(published, reference, pixels(2, 3, *size), interpolate_pos_encoding=True)


def test_a_folder_goes_back_as_it_came(case, tmp_path):
    folder, reference, published = case
    files, wanted = published.files(), load_tensors(folder / "model.safetensors")
    found = files["model.safetensors"]
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert json.loads(files["config.json"]) == json.loads((folder / "config.json").read_text())
    write_folder(tmp_path / "ours", files)
    again, told = type(reference).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    given = pixels(1, 3, 12, 12)
    with torch.no_grad():
        ours, theirs = again.eval()(pixel_values=given), reference(pixel_values=given)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], **CLOSE)


@torch.no_grad()
def test_pictures_of_several_sizes_in_one_batch(case):
    model = case[2].model
    pictures = [pixels(3, *size, seed=n) for n, size in enumerate([(12, 12), (12, 12), (4, 20), (12, 12), (8, 8)])]
    together = Pictures.of(pictures)
    rows = model.encoder.rows(together)
    assert [len(some) for some in together.alike] == [2, 1, 1, 1] and len(together) == 5
    apart = [model(Pictures.of([one])) for one in pictures]
    for found, wanted in zip(rows.split(model(together)), apart, strict=True):
        torch.testing.assert_close(found, wanted, **CLOSE)


@torch.no_grad()
def test_watching_changes_nothing_and_shows_the_reference_weights(case):
    _, reference, published = case
    given = Pictures((pixels(2, 3, 12, 12),))
    unseen = published.model(given)
    with watch(published.model) as seen:
        watched = published.model(given)
    assert torch.equal(unseen, watched)
    reference.set_attn_implementation("eager")
    grids = reference(pixel_values=given.alike[0], output_attentions=True).attentions
    for calls, grid in zip(seen.values(), grids, strict=True):
        torch.testing.assert_close(torch.stack(calls[0]), grid, **CLOSE)


def test_what_would_compute_otherwise_is_refused(tmp_path):
    reference = reference_model("ViTModel", qkv_bias=False)
    reference.save_pretrained(tmp_path)
    with pytest.raises(Problem, match="qkv_bias"):
        load_published(tmp_path)


SIZES = {"vit-cifar": 6.3, "deit-cifar": 6.3, "vit-base": 85.8, "deit-small": 21.7, "convolutional": 6.57}


@pytest.mark.parametrize("preset, millions", SIZES.items())
def test_presets_have_the_size_that_they_say(preset, millions):
    with torch.device("meta"):
        model = PUBLISHED[family_of(preset)].kind(VISION[preset])
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)
    assert from_dict(type(VISION[preset]), json.loads(json.dumps(to_dict(VISION[preset])))) == VISION[preset]


def test_what_does_not_fit_is_told():
    model = new_encoder("vit", change(VISION["vit-cifar"], "stack.layers", 1), {"classify"}, 3).model
    with pytest.raises(Problem, match="3 x 9 pixels is smaller than a patch of 4"):
        model(Pictures((torch.zeros(1, 3, 9, 3),)))
    with pytest.raises(Problem, match="1 channels"):
        model(Pictures((torch.zeros(1, 1, 8, 8),)))
    with pytest.raises(UsageProblem, match=r"embedding\.width=384, stack\.block\.width=256"):
        new_encoder("vit", change(VISION["vit-cifar"], "stack.block.width", 256), {"classify"}, 3)
    with pytest.raises(UsageProblem, match="patches of 64"):
        new_encoder("vit", change(VISION["vit-cifar"], "embedding.size", 64), {"classify"}, 3)


@pytest.mark.parametrize("family", SEERS)
def test_a_model_of_ours_survives_its_folder(tmp_path: Path, family):
    small = {"vit": "vit-cifar", "deit": "deit-cifar", "convolutional": "convolutional-small"}[family]
    config = VISION[small]
    config = change(config, "stack.layers", 1) if hasattr(config, "stack") else config
    roles = {"classify", "taught"} if family == "deit" else {"classify"}
    published = new_encoder(family, config, roles, 4)
    given = Pictures((pixels(3, 3, 32, 32),))
    published.model.train()(given)  # running means move
    published.model.eval()
    write_folder(tmp_path / "model", published.files())
    again = load_published(tmp_path / "model")
    assert again.model.encoder.config == config and again.layout.roles == roles
    with torch.no_grad():
        assert torch.equal(again.model(given), published.model(given))


@pytest.mark.parametrize("family", ["vit", "deit"])
def test_a_new_one_looks_at_what_is_like_it_and_near_it(family):
    """As Trockman and Kolter (2023) begin: W_q W_k is near 0.7, in a head's directions, W_v W_o near -0.4."""
    torch.manual_seed(0)
    encoder = new_encoder(family, change(VISION[f"{family}-cifar"], "stack.layers", 1), {"classify"}, 3).model.encoder
    attention, patches = encoder.stack.blocks[0].attention, encoder.embed
    given = attention.v.weight.T @ attention.out.weight.T
    assert given.diagonal().mean().item() == pytest.approx(-0.4, abs=0.02)
    assert (given + 0.4 * torch.eye(384)).std().item() == pytest.approx(0.4 * 384**-0.5, rel=0.1)
    for q, k in zip(*(line.weight.split(32) for line in (attention.q, attention.k)), strict=True):
        looked = q.T @ k
        assert 0.7 * 32 / 384 < looked.diagonal().mean() < 0.2 and abs(looked.mean()) < 0.002
    places = patches.positions[0, patches.config.tokens :].unflatten(0, (8, 8))
    alike = torch.einsum("d, hwd -> hw", places[2, 5], places)
    assert alike.argmax() == 2 * 8 + 5  # itself
    assert (alike[2, 5:].diff() < 0).all() and (alike[2:, 5].diff() < 0).all()


@pytest.mark.parametrize("other", [("size", 64), ("size", 3), ("project", False)])
def test_heads_of_any_size_begin(other):
    shape = {"embedding.width": 32, "stack.block.width": 32, "stack.layers": 1, "stack.block.attention.heads": 1}
    config = VISION["vit-cifar"]
    for name, value in (shape | {f"stack.block.attention.{other[0]}": other[1]}).items():
        config = change(config, name, value)
    with torch.no_grad():
        assert new_encoder("vit", config, {"classify"}, 3).model(Pictures((pixels(1, 3, 32, 32),))).isfinite().all()
