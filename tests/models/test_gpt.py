"""GPT and GPT-2: configs and files in the forms they are found in, and writing as the reference library writes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import torch

from regard.checkpoints.files import load_tensors, write_folder
from regard.config import change
from regard.decoding.beam import Beam, beam_search
from regard.decoding.decoder import Ends, prompted
from regard.decoding.sample import sample
from regard.errors import Problem
from regard.models import ENCODERS, PUBLISHED, family_of
from regard.models.encoder import Encoder
from regard.models.folder import load_published
from regard.models.gpt2 import gpt2
from regard.models.heads import new_encoder, with_heads
from regard.models.published import Published
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"  # the reference library would ask the hub about folders
torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

KINDS = {"gpt2": "GPT2", "openai-gpt": "OpenAIGPT"}
SIZES = {"vocab_size": 40, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40}
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
ROWS = [[5, 6, 7, 8], [9, 10, 11, 12, 13], [4], [21, 3]]


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    """A language model of the reference library, which ends texts by itself, and ours from its folder."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, f"{KINDS[request.param]}LMHeadModel")
    torch.manual_seed(1)
    model = kind(kind.config_class(**SIZES, **IDS)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("ln_" in name and name.endswith("weight")), 0.35)
        model.lm_head.weight[2] *= 2.5  # the table's row too: some of its texts come to an end
    folder = tmp_path_factory.mktemp("published")
    model.save_pretrained(folder)
    return model, load_published(folder), folder


def again(published: Published, tensors: dict[str, torch.Tensor], **settings) -> Published:
    return published.family.load(published.theirs | settings, tensors, Path("there"))


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)


def tensors_of(published: Published) -> dict[str, torch.Tensor]:
    return published.files()["model.safetensors"]


# Writing


PROMPTS = [[random.Random(n).randrange(3, 40) for _ in range(n)] for n in (1, 2, 3, 5, 8, 4, 7, 1)]


def theirs(model, prompt: list[int], beams: int, most: int) -> list[int]:
    """What the reference library writes after a prompt, without the end.  Told to, it ends at the limit as we do."""
    ids = torch.tensor([prompt])
    how = {"num_beams": beams, "length_penalty": 1.0, "early_stopping": False, "do_sample": False}
    how |= {"max_new_tokens": most, "forced_eos_token_id": 2}
    written = model.generate(ids, attention_mask=torch.ones_like(ids), **how)[0, len(prompt) :].tolist()
    return written[: written.index(2)]


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_what_is_written_is_what_the_reference_writes(case, beams):
    model, published, _ = case
    before, begin = prompted(Tokens.of(PROMPTS))
    ends = Ends(begin, 2, ratio=0.0, slack=16)
    if beams == 1:
        found = [hypothesis.tokens for hypothesis in sample(published.model, before, ends)]
    else:
        found = [best.tokens for best, *_ in beam_search(published.model, before, ends, Beam(beams))]
    wanted = [theirs(model, prompt, beams, 16) for prompt in PROMPTS]
    assert found == wanted
    assert min(map(len, wanted)) < 15  # the end was chosen, too


def test_prompts_of_one_token_are_written_on(case):
    model, published, _ = case
    before, begin = prompted(Tokens.of([[7], [9]]))
    assert before.rows.total == 0
    found = sample(published.model, before, Ends(begin, 2, 0.0, 9))
    assert [hypothesis.tokens for hypothesis in found] == [theirs(model, [start], 1, 9) for start in (7, 9)]


@torch.no_grad()
def test_stepping_equals_reading(case):
    writer = case[1].model
    whole, _ = writer.read(Tokens.of(ROWS))
    first, state = writer.read(Tokens.of([row[: len(row) // 2] for row in ROWS]))
    rest, _ = writer.read(Tokens.of([row[len(row) // 2 :] for row in ROWS]), state)
    halves = [Tokens.of([row[: len(row) // 2] for row in ROWS]), Tokens.of([row[len(row) // 2 :] for row in ROWS])]
    parts = zip(halves[0].rows.split(first), halves[1].rows.split(rest), strict=True)
    torch.testing.assert_close(torch.cat([part for pair in parts for part in pair]), whole, atol=1e-5, rtol=0)
    logits, _ = writer.step(torch.tensor([row[-1] for row in ROWS]), writer.start(Tokens.of([r[:-1] for r in ROWS])))
    tokens = Tokens.of(ROWS)
    torch.testing.assert_close(logits, writer.logits(whole)[tokens.rows.last], atol=1e-5, rtol=0)


# Files as they are found


def test_a_language_model_without_the_prefix(case):
    """As the first published ones are: they are called language models, and their names are the bare model's."""
    _, published, folder = case
    bare = {name.removeprefix("transformer."): t for name, t in load_tensors(folder / "model.safetensors").items()}
    found = again(published, bare)
    assert list(found.model.heads) == ["write"]
    assert same(tensors_of(found), bare)
    assert json.loads(found.files()["config.json"])["architectures"] == published.theirs["architectures"]


def test_masks_of_older_files_are_kept_and_not_acted_on(case):
    _, published, folder = case
    masks = {f"transformer.h.{layer}.attn.bias": torch.ones(1, 1, 40, 40).tril().bool() for layer in range(3)}
    masks |= {f"transformer.h.{layer}.attn.masked_bias": torch.tensor(-1e4) for layer in range(3)}
    whole = load_tensors(folder / "model.safetensors") | masks
    found = again(published, whole)
    assert same(tensors_of(found), whole)
    assert torch.equal(found.model(Tokens.of(ROWS)), published.model(Tokens.of(ROWS)))
    with pytest.raises(Problem, match=r"too many \(1\): transformer\.h\.0\.attn\.bias\.weight"):
        again(published, whole | {"transformer.h.0.attn.bias.weight": torch.ones(1)})


def test_the_head_may_stand_beside_the_table(case):
    _, published, folder = case
    plain = load_tensors(folder / "model.safetensors")
    table = next(name for name in plain if name.endswith(("wte.weight", "tokens_embed.weight")))
    twice = plain | {"lm_head.weight": plain[table].clone()}
    assert same(tensors_of(again(published, twice)), twice)
    with pytest.raises(Problem, match=rf"lm_head\.weight differs from {table}"):
        again(published, twice | {"lm_head.weight": plain[table] + 1})


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_half_precision_goes_back_as_it_came(case, precision):
    _, published, folder = case
    half = {name: tensor.to(precision) for name, tensor in load_tensors(folder / "model.safetensors").items()}
    assert same(tensors_of(again(published, half)), half)


@pytest.mark.parametrize("shape", [(16, 47), (48, 16), (3,), ()])
def test_a_fused_weight_of_another_shape_is_told(case, shape):
    _, published, folder = case
    plain = load_tensors(folder / "model.safetensors")
    with pytest.raises(Problem, match=r"h\.1\.attn\.c_attn\.weight is .*, here .*\.1\.attention\.[qkv]\.weight is"):
        again(published, plain | {"transformer.h.1.attn.c_attn.weight": torch.zeros(shape)})


def test_a_model_without_its_head_can_be_given_it(case):
    """Its weights are the table's: nothing is new."""
    _, published, folder = case
    plain = load_tensors(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in plain.items()}
    body = again(published, bare, architectures=[next(iter(published.family.heads))])
    assert not body.model.heads
    found, fresh = with_heads(body, {"write"})
    assert fresh == [] and same(tensors_of(found), plain)


def test_two_heads_of_which_the_table_is_the_writers(tmp_path):
    """The first GPT's file for choices has the table under the head's name alone; its words must not be lost."""
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    transformers.OpenAIGPTDoubleHeadsModel(transformers.OpenAIGPTConfig(**SIZES)).save_pretrained(tmp_path)
    published = load_published(tmp_path)
    assert published.layout.roles == {"write", "choose"}
    assert same(tensors_of(published), load_tensors(tmp_path / "model.safetensors"))
    found, fresh = with_heads(published, {"classify"}, 3)
    assert fresh == ["score.weight"]
    assert torch.equal(found.model.encoder.embed.tokens.weight, published.model.encoder.embed.tokens.weight)


# Configs


@pytest.mark.parametrize("inner", [{}, {"n_inner": None}, {"n_inner": 24}])
def test_the_width_inside_is_four_times_the_other_unless_it_is_told(tmp_path, inner):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    transformers.GPT2Model(transformers.GPT2Config(**SIZES, **inner)).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    said = {key: value for key, value in json.loads(path.read_text()).items() if key != "n_inner"} | inner
    path.write_text(json.dumps(said))
    published = load_published(tmp_path)
    assert published.model.encoder.config.stack.block.inner == (inner.get("n_inner") or 64)
    assert json.loads(published.files()["config.json"]) == said


def test_an_old_config_says_what_a_new_one_does(case):
    """Before there was a model_type, and with keys that nobody reads any more."""
    _, published, folder = case
    new = ("model_type", "dtype", "transformers_version", "tie_word_embeddings", "add_cross_attention", "use_cache")
    old = {key: value for key, value in published.theirs.items() if key not in new}
    old |= {"n_ctx": 40, "n_special": 0, "predict_special_tokens": True, "task_specific_params": {"a": 1}}
    found = published.family.load(old, load_tensors(folder / "model.safetensors"), folder)
    assert torch.equal(found.model(Tokens.of(ROWS)), published.model(Tokens.of(ROWS)))
    assert json.loads(found.files()["config.json"]) == old


REFUSED = {
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "reorder_and_upcast_attn": True,
    "add_cross_attention": True,
    "tie_word_embeddings": False,
    "summary_type": "mean",
    "summary_activation": "tanh",
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_would_change_the_numbers_is_refused(case, key):
    _, published, folder = case
    with pytest.raises(Problem, match=f"{key} is .* in config.json, and only"):
        again(published, load_tensors(folder / "model.safetensors"), **{key: REFUSED[key]})


@pytest.mark.parametrize(
    "family, key, word, ours",
    [
        ("gpt2", "activation_function", "gelu", "gelu"),
        ("gpt2", "activation_function", "gelu_pytorch_tanh", "gelu-tanh"),
        ("gpt2", "activation_function", "relu", "relu"),
        ("gpt2", "activation_function", "silu", "swish"),
        ("openai-gpt", "afn", "gelu", "gelu-tanh"),
        ("openai-gpt", "afn", "silu", "swish"),
        ("openai-gpt", "afn", "relu", "relu"),
    ],
)
@torch.no_grad()
def test_another_activation(tmp_path, family, key, word, ours):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind = getattr(transformers, f"{KINDS[family]}Model")
    torch.manual_seed(0)
    model = kind(kind.config_class(**SIZES, **{key: word})).eval()
    for parameter in model.parameters():
        parameter.normal_(0, 0.5)
    model.save_pretrained(tmp_path)
    published = load_published(tmp_path)
    assert published.model.encoder.config.stack.block.activation == ours
    wanted = model(torch.tensor([ROWS[1]])).last_hidden_state[0]
    torch.testing.assert_close(published.model(Tokens.of([ROWS[1]])), wanted, atol=1e-5, rtol=0)
    assert json.loads(published.files()["config.json"])[key] == word


def test_an_unheard_activation_is_refused(case):
    _, published, folder = case
    key = "afn" if published.theirs["model_type"] == "openai-gpt" else "activation_function"
    with pytest.raises(Problem, match="'tang' is not one of"):
        again(published, load_tensors(folder / "model.safetensors"), **{key: "tang"})


# New models


COUNTS = {  # as published
    "gpt": 116_534_784,
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


@pytest.mark.parametrize("preset", COUNTS)
def test_presets_have_the_published_sizes(preset):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in Encoder(ENCODERS[preset]).parameters()) == COUNTS[preset]


@pytest.mark.parametrize("preset", ["gpt-tiny", "gpt2-tiny", "gpt-char"])
def test_what_is_made_here_loads_there(tmp_path, preset):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    config = change(ENCODERS[preset], "embedding.vocab", 60)
    published = new_encoder(family_of(preset), config, {"write"})
    write_folder(tmp_path / "model", published.files())
    model, told = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        wanted = model.eval()(torch.tensor([ROWS[1]])).logits[0]
        found = published.model.logits(published.model(Tokens.of([ROWS[1]])))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_what_layers_add_begins_smaller_the_more_there_are():
    torch.manual_seed(0)
    model = new_encoder("gpt2", gpt2(8, 64, 2, vocab=50), {"write"}).model
    block = model.encoder.stack.blocks[0]
    for line, share in ((block.attention.q, 1), (block.attention.out, 0.25), (block.feed.down, 0.25)):
        assert line.weight.std().item() == pytest.approx(0.0176 * share, rel=0.1)  # of a normal cut at two deviations


def test_every_architecture_has_its_own_roles():
    for name in KINDS:
        roles = [frozenset(head.role for head in heads) for heads in PUBLISHED[name].heads.values()]
        assert len(set(roles)) == len(roles)
