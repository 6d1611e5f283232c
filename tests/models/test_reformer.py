"""Reformer: the reference library's numbers with its hashes fixed, folders that go back as they came, the same
gradients as plain layers, and what is read on."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest
import torch

from regard.checkpoints.files import load_tensors, write_folder
from regard.errors import Problem, UsageProblem
from regard.models.folder import load_published
from regard.models.heads import new_encoder, with_heads
from regard.models.reformer import ChunkConfig, reformer
from regard.objectives.language import Next
from regard.objectives.masked import Hiding, Masked
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders
torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "attention_head_size": 6, "num_attention_heads": 2, "feed_forward_size": 24,
    "attn_layers": ["local", "lsh", "lsh", "local"], "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [6, 10],
    "max_position_embeddings": 64, "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_hashes": 3,
    "num_buckets": 6, "hash_seed": 5, "layer_norm_eps": 1e-3, "is_decoder": False, "use_cache": False,
}  # fmt: skip
CASES = {
    "ReformerModel": {},
    "ReformerModelWithLMHead": {"is_decoder": True},
    "ReformerForMaskedLM": {},
    "ReformerForSequenceClassification": {"num_labels": 3},
    "ReformerForQuestionAnswering": {"num_labels": 2},
}
SETTINGS = {
    "plain": {},
    "one round": {"num_hashes": 1},
    "factors": {"num_buckets": [2, 4]},
    "buckets by length": {"num_buckets": None},
    "sizes that differ": {"local_attn_chunk_length": 6, "lsh_attn_chunk_length": 4},
    "both sides": {"local_num_chunks_after": 1, "lsh_num_chunks_after": 1, "lsh_num_chunks_before": 2},
    "learned places": {"axial_pos_embds": False},
    "gelu": {"hidden_act": "gelu"},
}
LENGTHS = [3, 4, 8, 13, 30, 60]


def reference_model(architecture: str, **settings):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(transformers.ReformerConfig(**SIZES | settings)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_norm = re.search("norm", name) and name.endswith("weight")
            weight.normal_(float(bool(is_norm)), 0.3)
        if hasattr(model, "lm_head"):  # this version of theirs does not add it
            model.lm_head.bias.zero_()
    return model


def ids_of(length: int) -> list[int]:
    return torch.randint(40, (length,), generator=torch.Generator().manual_seed(length)).tolist()


@torch.no_grad()
def check_numbers(reference, published) -> None:
    """Of rows by themselves: in a batch, what their padding does depends on the longest."""
    model = published.model
    for length in LENGTHS:
        row = ids_of(length)
        answer = reference(torch.tensor([row]), output_hidden_states=True)
        reference.config.num_buckets = json.loads(published.files()["config.json"]).get("num_buckets")
        for layer in reference.modules():  # what they have set by the length of the last row
            if hasattr(layer, "num_buckets"):
                layer.num_buckets = reference.config.num_buckets
        tokens = Tokens.of([row])
        layers = list(model.encoder.layers(tokens))
        for ours, theirs in zip(layers[:-1], answer.hidden_states[:-1], strict=True):
            torch.testing.assert_close(ours.chunk(2, -1)[1], theirs[0, :length], atol=1e-5, rtol=0)
        states = model(tokens)
        torch.testing.assert_close(states, layers[-1], atol=0, rtol=0)
        for role in model.heads:
            scores = model.scores(role, states, tokens.rows)
            logits = torch.stack([answer.start_logits, answer.end_logits], -1) if role == "answer" else answer.logits
            torch.testing.assert_close(scores, logits.flatten(0, -2), atol=1e-5, rtol=0)
        if not model.heads:
            torch.testing.assert_close(states, answer.last_hidden_state[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("architecture", CASES)
def test_every_architecture_agrees_with_the_reference_and_goes_back_as_it_came(tmp_path, architecture):
    reference = reference_model(architecture, **CASES[architecture])
    reference.save_pretrained(tmp_path / "theirs")
    published = load_published(tmp_path / "theirs")
    assert published.layout.architecture == architecture
    check_numbers(reference, published)
    files, tensors = published.files(), load_tensors(tmp_path / "theirs" / "model.safetensors")
    assert json.loads(files["config.json"]) == json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert files["model.safetensors"].keys() == tensors.keys()
    assert all(torch.equal(files["model.safetensors"][name], tensors[name]) for name in tensors)
    write_folder(tmp_path / "ours", files)
    _, told = type(reference).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_agrees_with_the_reference(tmp_path, name, causal):
    settings = SETTINGS[name]
    if causal and name == "both sides":
        settings = {"lsh_num_chunks_before": 2, "local_num_chunks_before": 2}
    architecture = "ReformerModelWithLMHead" if causal else "ReformerForMaskedLM"
    reference = reference_model(architecture, is_decoder=causal, **settings)
    reference.save_pretrained(tmp_path / "theirs")
    published = load_published(tmp_path / "theirs")
    check_numbers(reference, published)
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert json.loads(published.files()["config.json"]) == config


def test_older_files_have_constants_and_a_bias_twice(tmp_path):
    reference_model("ReformerModelWithLMHead", is_decoder=True).save_pretrained(tmp_path)
    tensors = load_tensors(tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    older = tensors | {
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
        "reformer.encoder.layers.1.attention.self_attention.self_mask_value_float32": torch.tensor(-1e5),
    }
    published = load_published(tmp_path).family.load(config, older, tmp_path)
    written = published.files()["model.safetensors"]
    assert written.keys() == older.keys() and all(torch.equal(written[name], older[name]) for name in older)


# Ours


def small(causal=True, **changes):
    config = reformer(4, 16, 2, 24, size=6, vocab=40, axes=(8, 16), dropout=0.0)
    changes = {"rounds": 2, "local": ChunkConfig(4), "lsh": ChunkConfig(4), **changes}
    return replace(config, stack=replace(config.stack, causal=causal), **changes)


def encoder(role: str, **changes):
    torch.manual_seed(0)
    model = new_encoder("reformer", small(causal=role == "write", **changes), {role}).model
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


ROWS = [ids_of(length) for length in (30, 3, 17, 64)]


@torch.no_grad()
def test_a_row_alone_is_the_row_in_a_batch():
    model, tokens = encoder("masked"), Tokens.of(ROWS)
    for row, states in zip(ROWS, tokens.rows.split(model(tokens)), strict=True):
        torch.testing.assert_close(model(Tokens.of([row])), states, atol=1e-5, rtol=0)


@torch.no_grad()
def test_what_is_read_on_is_what_is_read_at_once():
    model = encoder("write")
    first, more = Tokens.of([row[:2] for row in ROWS]), Tokens.of([row[2:3] for row in ROWS])
    _, state = model.read(first)
    states, state = model.read(more, state)
    torch.testing.assert_close(states, model.read(Tokens.of([row[:3] for row in ROWS]))[0][[2, 5, 8, 11]])
    chosen = torch.tensor([2, 0])
    states, _ = model.read(Tokens.of([[7], [9]]), state.select(chosen))
    wanted = model.read(Tokens.of([[*ROWS[2][:3], 7], [*ROWS[0][:3], 9]]))[0][[3, 7]]
    torch.testing.assert_close(states, wanted)


@torch.no_grad()
def test_nothing_ahead_is_seen():
    """Of what is seen behind, which of it is seen may depend on what lies ahead: chunks are cut of all."""
    model = encoder("write", lsh=ChunkConfig(64), local=ChunkConfig(64))
    changed = [*ROWS[3][:40], *reversed(ROWS[3][40:])]
    before, after = (model(Tokens.of([row]))[:40] for row in (ROWS[3], changed))
    torch.testing.assert_close(before, after, atol=1e-6, rtol=0)


def gradients(model, reversible: bool, dtype=torch.float64):
    model, tokens = model.to(dtype).train(), Tokens.of(ROWS)
    stack = model.encoder.stack
    if not reversible:
        stack.goes_back = lambda x: False
    torch.manual_seed(3)
    states = model(tokens)
    (states * torch.linspace(-1, 1, states.numel(), dtype=dtype).view_as(states)).sum().backward()
    return states.detach(), {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_reversible_layers_give_the_same_gradients_as_plain_ones(dropout):
    def model():
        made = encoder("masked", local=ChunkConfig(4, dropout=dropout), lsh=ChunkConfig(4, dropout=dropout))
        for part in made.modules():
            if isinstance(part, torch.nn.Dropout) and part is not made.encoder.dropout:
                part.p = dropout
        return made

    states, found = gradients(model(), True)
    plain, wanted = gradients(model(), False)
    torch.testing.assert_close(states, plain, rtol=1e-9, atol=1e-9)
    assert found.keys() == wanted.keys() and len(found) > 40
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=1e-5, msg=name)


def test_layers_in_single_precision_too():
    _, found = gradients(encoder("masked"), True, torch.float32)
    _, wanted = gradients(encoder("masked"), False, torch.float32)
    for name in wanted:
        scale = float(wanted[name].abs().max())
        assert float((found[name] - wanted[name]).abs().max()) <= 1e-5 * max(scale, 1), name


def kept_bytes(layers: int, reversible: bool) -> int:
    """Of all tensors that are kept for the way back."""
    config = small()
    kinds = tuple(("local", "lsh")[number % 2] for number in range(layers))
    config = replace(config, stack=replace(config.stack, layers=layers), kinds=kinds)
    model = new_encoder("reformer", config, {"write"}).model.train()
    if not reversible:
        model.encoder.stack.goes_back = lambda x: False
    kept: dict[int, int] = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        states = model(Tokens.of(ROWS))
    assert states.requires_grad
    return sum(size for place, size in kept.items() if place not in own)


def test_what_is_kept_does_not_grow_with_depth():
    assert kept_bytes(2, True) == kept_bytes(8, True)
    assert kept_bytes(8, False) > 3 * kept_bytes(2, False) > 3 * kept_bytes(2, True)


def test_it_learns_what_comes_next_and_what_is_hidden():
    for role, lengths in (("write", [12, 9, 3]), ("masked", [12, 9, 3])):
        model = encoder(role).train()
        rows = Tokens.of([ids_of(length) for length in lengths])
        if role == "write":
            objective, batch = Next(), {"tokens": rows, "wanted": rows.ids.roll(-1)}
        else:
            objective = Masked(Hiding(39, 40, (0,), share=0.3))
            torch.manual_seed(1)
            batch = objective.prepare({"tokens": rows})
        adam, losses = torch.optim.Adam(model.parameters(), 0.01), []
        for _ in range(30):
            adam.zero_grad()
            result = objective.judge(model, batch)
            result.loss.backward()
            adam.step()
            losses.append(float(result.loss.detach() / result.count))
        assert losses[-1] < 0.5 * losses[0]


def test_hashes_differ_from_step_to_step_and_never_in_use():
    model = encoder("masked", seed=None)
    tokens = Tokens.of([ROWS[3]])
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.allclose(model(tokens), model(tokens))


def test_what_is_asked_must_fit_the_direction():
    with pytest.raises(UsageProblem, match="causal"):
        new_encoder("reformer", small(causal=False), {"write"})
    with pytest.raises(UsageProblem, match="hidden words"):
        with_heads(new_encoder("reformer", small(), {"write"}), {"classify"})
    published = new_encoder("reformer", small(causal=False), {"masked"})
    found, fresh = with_heads(published, {"classify"}, 3)
    assert fresh == [f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("bias", "weight")]
    assert found.model.scores("classify", found.model(Tokens.of(ROWS)), Tokens.of(ROWS).rows).shape == (4, 3)


def test_settings_that_do_not_agree_are_refused():
    with pytest.raises(UsageProblem, match="axis_widths"):
        new_encoder("reformer", small(axis_widths=(3, 4)), {"write"})
    with pytest.raises(UsageProblem, match="even"):
        small(buckets=(5,))
    with pytest.raises(UsageProblem, match="kinds"):
        new_encoder("reformer", small(kinds=("lsh",)), {"write"})
    with pytest.raises(Problem, match="128"):
        encoder("write")(Tokens.of([[1] * 129]))
