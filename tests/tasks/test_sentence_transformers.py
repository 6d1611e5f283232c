"""Folders of sentence-transformers: those it writes give its vectors here, and those written here give ours there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.commands.convert import convert
from regard.commands.load import load
from regard.tasks.reader import Reader

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TEXTS = ["The cat sat", "a bad cab", "x", "", "ABC def: a feed bag", "bee " * 12]  # the last is longer than is read
WIDTH, MAX_LENGTH = 16, 14
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ":", "the", "cat", "sat", "query", *LETTERS]
VOCAB = {word: id for id, word in enumerate([*WORDS, *(f"##{letter}" for letter in LETTERS)])}
FLAGS = {
    "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens", "lasttoken": "pooling_mode_lasttoken",
}  # fmt: skip
POOLINGS = [*FLAGS, ("max", "mean"), ("cls", "lasttoken")]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers", reason="the oracle sentence-transformers is not installed")


@pytest.fixture(scope="module")
def encoder(library, tmp_path_factory) -> Path:
    """A small BERT that tells upper case from lower, as transformers saves it."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(VOCAB), max_position_embeddings=24, initializer_range=0.5, **sizes)
    folder = tmp_path_factory.mktemp("bert")
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=VOCAB, do_lower_case=False, model_max_length=20).save_pretrained(folder)
    return folder


def modules_of(case: str) -> list:
    """The modules behind the pooling, or in its place."""
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(1)
    dense = modules.Dense(WIDTH, 8, activation_function=torch.nn.GELU())
    without_bias = modules.Dense(WIDTH, WIDTH, bias=False, activation_function=torch.nn.Identity(), use_residual=True)
    norm = modules.LayerNorm(WIDTH)
    torch.nn.init.normal_(norm.norm.weight)
    torch.nn.init.normal_(norm.norm.bias)
    behind = {
        "normalize": [modules.Normalize()],
        "dense": [dense],
        "residual dense without bias": [without_bias],
        "layer norm": [norm],
        "dense and normalize": [dense, modules.Normalize()],
        "dropout": [modules.Dropout(0.5)],
        "prompt left out": [modules.Pooling(WIDTH, ("mean", "cls", "weightedmean", "max"), include_prompt=False)],
    }
    return behind.get(case, [])


CASES = ["normalize", "dense", "residual dense without bias", "layer norm", "dense and normalize", "dropout"]
CASES += ["default prompt", "prompt left out", "lower-casing", "pooling folder of another name", "encoder in a folder"]


def write_current(library, encoder: Path, folder: Path, pooling, case: str = "") -> Path:
    """What the installed release of sentence-transformers writes."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    first = Transformer(str(encoder), max_seq_length=MAX_LENGTH, do_lower_case=case == "lower-casing")
    prompts = {"query": "query: ", "passage": "the cat: "}
    default = "query" if "prompt" in case else None
    behind = modules_of(case)
    pool = [] if case == "prompt left out" else [Pooling(WIDTH, pooling)]
    modules = [first, *pool, *behind]
    model = library.SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name=default, device="cpu")
    model.save(str(folder), create_model_card=False)
    if case == "pooling folder of another name":
        (folder / "1_Pooling").rename(folder / "gather")
        edit(folder / "modules.json", lambda listed: listed[1].update(path="gather"))
    if case == "encoder in a folder":
        (folder / "0_Transformer").mkdir()
        for path in [path for path in folder.iterdir() if path.is_file() and "sentence_t" not in path.name]:
            if path.name != "modules.json":
                path.rename(folder / "0_Transformer" / path.name)
        edit(folder / "modules.json", lambda listed: listed[0].update(path="0_Transformer"))
    return folder


def make_old(folder: Path) -> Path:
    """The same folder in the layout of the releases up to 5.3."""
    listed = json.loads((folder / "modules.json").read_text())
    for entry in listed:
        entry["type"] = f"sentence_transformers.models.{entry['type'].rsplit('.', 1)[-1]}"
        config = folder / entry["path"] / "config.json"
        if entry["type"].endswith(".Pooling"):
            config.write_text(json.dumps(old_pooling(json.loads(config.read_text()))))
        if entry["type"].endswith(".Normalize"):
            config.unlink()
            config.parent.rmdir()
    (folder / "modules.json").write_text(json.dumps(listed))
    encoder = folder / listed[0]["path"]
    (encoder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": MAX_LENGTH, "do_lower_case": False})
    )
    edit(encoder / "tokenizer_config.json", lambda settings: settings.update(model_max_length=512))
    return folder


def old_pooling(config: dict) -> dict:
    modes = config["pooling_mode"]
    modes = [modes] if isinstance(modes, str) else modes
    flags = {flag: mode in modes for mode, flag in FLAGS.items()}
    return {"word_embedding_dimension": WIDTH, **flags, "include_prompt": config["include_prompt"]}


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def vectors_there(library, folder: Path, **settings) -> np.ndarray:
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode(TEXTS, **settings)


def vectors_of_lower_case(library, folder: Path) -> np.ndarray:
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return model.encode([text.lower() for text in TEXTS])


def check_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    lengths = np.linalg.norm(ours, axis=-1) * np.linalg.norm(theirs, axis=-1)
    assert ((ours * theirs).sum(-1) / lengths).min() > 0.999999
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


ROWS = [(pooling, "") for pooling in POOLINGS] + [("mean", case) for case in CASES]
NAMES = [case or "+".join([pooling] if isinstance(pooling, str) else pooling) for pooling, case in ROWS]


@pytest.mark.parametrize("layout", ["current", "old"])
@pytest.mark.parametrize("pooling, case", ROWS, ids=NAMES)
def test_folders_of_both_layouts_give_its_vectors_and_are_saved_whole(
    library, encoder, tmp_path, pooling, case, layout
):
    folder = write_current(library, encoder, tmp_path / "theirs", pooling, case)
    if layout == "old":
        make_old(folder)
    if case == "lower-casing" and layout == "old":  # which the tokenizer's own file did not say then
        (folder / "tokenizer.json").write_bytes((encoder / "tokenizer.json").read_bytes())
        edit(folder / "sentence_bert_config.json", lambda settings: settings.update(do_lower_case=True))
    theirs = vectors_there(library, folder)
    if case == "lower-casing" and layout == "current":  # which it loses when it opens the folder of a BERT again
        theirs = vectors_of_lower_case(library, folder)
    found = load(folder, "cpu")
    assert isinstance(found, Reader) and found.longest == MAX_LENGTH
    check_equal(found.embed(TEXTS), theirs)
    found.save(tmp_path / "ours")
    check_equal(vectors_there(library, tmp_path / "ours"), theirs)
    assert np.array_equal(load(tmp_path / "ours", "cpu").embed(TEXTS), found.embed(TEXTS))


@pytest.mark.parametrize("settings", [{"prompt_name": "passage"}, {"prompt": "feed: "}, {"prompt": ""}], ids=str)
def test_another_prompt_is_chosen(library, encoder, tmp_path, settings):
    folder = write_current(library, encoder, tmp_path / "theirs", "mean", "prompt left out")
    check_equal(load(folder, "cpu").embed(TEXTS, **settings), vectors_there(library, folder, **settings))


def test_weighted_layers_are_those_of_sentence_transformers(library, encoder, tmp_path):
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling, WeightedLayerPooling

    first = Transformer(str(encoder), config_kwargs={"output_hidden_states": True})
    layers = WeightedLayerPooling(WIDTH, num_hidden_layers=2, layer_start=1)
    layers.layer_weights.data = torch.tensor([0.3, 2.0])
    model = library.SentenceTransformer(modules=[first, layers, Pooling(WIDTH, "mean")], device="cpu")
    model.save(str(tmp_path / "theirs"), create_model_card=False)
    edit(tmp_path / "theirs" / "config.json", lambda config: config.update(output_hidden_states=True))
    check_equal(load(tmp_path / "theirs", "cpu").embed(TEXTS), vectors_there(library, tmp_path / "theirs"))


@pytest.mark.parametrize("how, normalize", [("mean", True), ("cls", False), ("weightedmean+max", True)])
def test_a_plain_encoder_is_saved_with_a_pooling_it_opens(library, encoder, tmp_path, how, normalize):
    reader = load(encoder, "cpu").with_pooling(how, normalize)
    reader.save(tmp_path / "ours")
    check_equal(vectors_there(library, tmp_path / "ours"), reader.embed(TEXTS))
    assert np.array_equal(load(tmp_path / "ours", "cpu").embed(TEXTS), reader.embed(TEXTS))


@pytest.mark.filterwarnings("ignore:.*was left out")
def test_a_pickled_folder_is_converted_whole(library, encoder, tmp_path):
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    first, pool = Transformer(str(encoder), max_seq_length=MAX_LENGTH), Pooling(WIDTH, "cls")
    modules = [first, pool, Dense(WIDTH, 8), Normalize()]
    folder = tmp_path / "theirs"
    library.SentenceTransformer(modules=modules, device="cpu").save(str(folder), safe_serialization=False)
    theirs = vectors_there(library, folder)
    assert (folder / "2_Dense" / "pytorch_model.bin").exists()
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")  # as transformers once did
    (folder / "model.safetensors").unlink()
    convert(folder, tmp_path / "converted")
    check_equal(load(tmp_path / "converted", "cpu").embed(TEXTS), theirs)


@pytest.mark.parametrize("activation", ["Sigmoid", "Identity"])
@pytest.mark.parametrize("layout", ["current", "release 4", "release 1", "no word of it"])
def test_a_cross_encoder_scores_as_it_does_there(library, encoder, tmp_path, activation, layout):
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(2)
    config = BertConfig.from_pretrained(str(encoder), num_labels=1)
    base, folder = tmp_path / "base", tmp_path / "theirs"
    BertForSequenceClassification(config).save_pretrained(base)
    AutoTokenizer.from_pretrained(str(encoder)).save_pretrained(base)
    path = f"torch.nn.modules.{'activation' if activation == 'Sigmoid' else 'linear'}.{activation}"
    if layout == "current":
        given = getattr(torch.nn, activation)()
        library.CrossEncoder(str(base), activation_fn=given, device="cpu").save(str(folder))
    else:
        base.rename(folder)
    keys = {"release 4": {"sentence_transformers": {"activation_fn": path, "version": "4.0.1"}},
            "release 1": {"sbert_ce_default_activation_function": path}}  # fmt: skip
    edit(folder / "config.json", lambda config: config.update(keys.get(layout, {})))
    pairs = [("The cat sat", "a bad cab"), ("x", "ABC"), ("bee " * 12, "cab")]
    default = {"activation_fn": torch.nn.Identity()} if layout == "no word of it" else {}
    theirs = library.CrossEncoder(str(folder), device="cpu").predict(pairs, **default)
    found = load(folder, "cpu")
    assert np.allclose(found.predict(pairs), theirs, atol=1e-5)
    found.save(tmp_path / "ours")
    assert np.allclose(
        library.CrossEncoder(str(tmp_path / "ours"), device="cpu").predict(pairs, **default), theirs, atol=1e-5
    )
