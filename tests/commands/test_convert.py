"""`convert`: pickled folders of every make become the folder everyone reads."""

from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.checkpoints.files import check_folder, load_tensors
from regard.commands.convert import convert
from regard.errors import Problem
from regard.models import albert, bert, electra
from regard.rows import Tokens

CONFIG = b'{"model_type": "bert"}'
TABLE = torch.arange(12.0).view(4, 3)
INDEX = "pytorch_model.bin.index.json"
SHARDS = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "config.json").write_bytes(CONFIG)
    return folder


@pytest.fixture
def sharded(folder):
    for name, shard in zip("ab", SHARDS, strict=True):
        torch.save({name: TABLE}, folder / shard)
    write_index(folder, dict(zip("ab", SHARDS, strict=True)))
    return folder


def write_index(folder, places):
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))


def test_a_folder_is_converted_with_its_vocabulary(folder, tmp_path):
    torch.save({"a": TABLE}, folder / "pytorch_model.bin")
    torch.save({"seed": 3}, folder / "training_args.bin")
    for name in ("vocab.txt", "source.spm", "modeling_bert.py"):
        (folder / name).write_text(name)
    out = convert(folder, tmp_path / "out")
    check_folder(out)
    written = {"config.json", "model.safetensors", "manifest.json", "vocab.txt", "source.spm"}
    assert {path.name for path in out.iterdir()} == written
    assert (out / "config.json").read_bytes() == CONFIG and (out / "vocab.txt").read_text() == "vocab.txt"
    assert torch.equal(load_tensors(out / "model.safetensors")["a"], TABLE)


def sentence_folder(folder: Path) -> dict[str, bytes]:
    """Make a sentence-transformers folder of it, with a pickled Dense; its files that are data."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_LayerNorm", "LayerNorm")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules]
    texts = {
        "modules.json": json.dumps(listed), "1_Pooling/config.json": '{"pooling_mode": "cls"}',
        "2_Dense/config.json": "{}", "3_LayerNorm/config.json": "{}", "sentence_bert_config.json": "{}",
        "config_sentence_transformers.json": "{}", "preprocessor_config.json": "{}", "spiece.model": "pieces",
        "README.md": "a card", "LICENSE": "a licence", "vocab.txt": "a\nb", "more/words.txt": "a",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    torch.save({"linear.weight": TABLE}, folder / "2_Dense" / "pytorch_model.bin")
    save_file({"norm.weight": TABLE}, folder / "3_LayerNorm" / "model.safetensors")
    return {name: text.encode() for name, text in texts.items()}


@pytest.mark.parametrize("root", ["pickled", "safetensors"])
def test_all_that_is_data_is_kept_and_the_rest_is_listed(folder, tmp_path, capsys, root):
    data = sentence_folder(folder)
    if root == "pickled":
        torch.save({"a": TABLE}, folder / "pytorch_model.bin")
    else:
        save_file({"a": TABLE}, folder / "model.safetensors")
    torch.save({"seed": 3}, folder / "training_args.bin")
    for name in ("modeling.py", "2_Dense/dense.py", "tf_model.h5", "onnx_model.onnx", "strange.thing"):
        (folder / name).write_text("os.system('touch hacked')")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "linked.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    out = convert(folder, tmp_path / "out")
    check_folder(out)
    for name, content in data.items():
        assert (out / name).read_bytes() == content
    assert torch.equal(load_tensors(out / "model.safetensors")["a"], TABLE)
    assert torch.equal(load_tensors(out / "2_Dense/model.safetensors")["linear.weight"], TABLE)
    assert torch.equal(load_tensors(out / "3_LayerNorm/model.safetensors")["norm.weight"], TABLE)
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    weights = {"model.safetensors", "2_Dense/model.safetensors", "3_LayerNorm/model.safetensors"}
    assert written == {*data, *weights, "config.json", "manifest.json"}
    assert capsys.readouterr().err.splitlines() == [
        "left out: 2_Dense/dense.py (code)",
        "left out: linked (a link out of the folder)",
        "left out: linked.txt (a link out of the folder)",
        "left out: modeling.py (code)",
        "left out: onnx_model.onnx (weights of another framework)",
        "left out: pipe.json (no regular file)",
        "left out: strange.thing (not known to be data)",
        "left out: tf_model.h5 (weights of another framework)",
        "left out: training_args.bin (a pickle)",
    ]


def test_a_folder_of_safetensors_alone_needs_no_conversion(folder, tmp_path):
    sentence_folder(folder)
    (folder / "2_Dense" / "pytorch_model.bin").unlink()
    save_file({"a": TABLE}, folder / "model.safetensors")
    with pytest.raises(Problem, match="safetensors need no conversion"):
        convert(folder, tmp_path / "out")


def test_the_hubs_links_to_its_own_blobs_are_files_of_the_folder(tmp_path):
    blobs, snapshot = tmp_path / "models--a" / "blobs", tmp_path / "models--a" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    torch.save({"a": TABLE}, blobs / "1")
    (blobs / "2").write_bytes(CONFIG)
    (blobs / "3").write_text("a")
    for blob, name in (("1", "pytorch_model.bin"), ("2", "config.json"), ("3", "vocab.txt")):
        (snapshot / name).symlink_to(Path("../../blobs") / blob)
    out = convert(snapshot, tmp_path / "out")
    assert {path.name for path in out.iterdir()} == {"config.json", "manifest.json", "model.safetensors", "vocab.txt"}


def test_a_modules_path_stays_in_the_folder(folder, tmp_path):
    torch.save({"a": TABLE}, folder / "pytorch_model.bin")
    (folder / "modules.json").write_text('[{"path": "", "type": "a"}, {"path": "../elsewhere", "type": "b"}]')
    with pytest.raises(Problem, match=r"'\.\./elsewhere', which leads out of the folder"):
        convert(folder, tmp_path / "out")


def test_only_the_vocabulary_is_taken_from_beside_a_lone_file_of_weights(folder, tmp_path):
    weights = tmp_path / "downloads"
    weights.mkdir()
    torch.save({"a": TABLE}, weights / "model.pt")
    for name in ("vocab.txt", "diary.txt", "accounts.json"):
        (weights / name).write_text("mine")
    out = convert(weights / "model.pt", tmp_path / "out", config=folder / "config.json")
    assert {path.name for path in out.iterdir()} == {"config.json", "manifest.json", "model.safetensors", "vocab.txt"}


def test_a_file_is_converted_with_a_config_and_vocabulary_from_elsewhere(folder, tmp_path):
    checkpoint = tmp_path / "last.ckpt"
    torch.save({"epoch": 3, "state_dict": {"model.a": TABLE, "head": TABLE + 1}}, checkpoint)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.warns(UserWarning, match="no weights and were left out: 1"):
        out = convert(checkpoint, tmp_path / "out", strip="model.", config=folder / "config.json")
    assert load_tensors(out / "model.safetensors").keys() == {"a", "head"}
    assert (out / "tokenizer.json").exists()


def test_shards_are_joined(sharded, tmp_path):
    out = convert(sharded, tmp_path / "out")
    assert load_tensors(out / "model.safetensors").keys() == {"a", "b"}


@pytest.mark.parametrize(
    "places, told",
    [({"a": "../secret.bin"}, "lists '../secret.bin', which is not the name of a file beside it"),
     ({"a": "/secret.bin"}, "lists '/secret.bin'"),
     ({"a": 3}, "has no weight_map"),
     (["a"], "has no weight_map"),
     ({"a": SHARDS[0], "b": "pytorch_model-00003.bin"}, "pytorch_model-00003.bin: there is no such file"),
     ({"c": SHARDS[0]}, f"holds a, and {INDEX} does not say so")],
)  # fmt: skip
def test_an_index_that_is_not_true_is_refused(sharded, tmp_path, places, told):
    torch.save({"a": TABLE}, tmp_path / "secret.bin")
    write_index(sharded, places)
    with pytest.raises(Problem, match=re.escape(told)):
        convert(sharded, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_never_overwritten(folder, tmp_path):
    torch.save({"a": TABLE}, folder / "pytorch_model.bin")
    with pytest.raises(Problem, match="exists already"):
        convert(folder, folder)


def test_names_that_cannot_be_stripped_are_told(folder, tmp_path):
    torch.save({"model.a": TABLE, "a": TABLE + 1}, folder / "model.pt")
    with pytest.raises(Problem, match=r"no name in .* begins with 'modle.'; the first is a"):
        convert(folder, tmp_path / "out", strip="modle.")
    with pytest.raises(Problem, match=r"holds both model.a and a"):
        convert(folder, tmp_path / "out", strip="model.")


def test_it_is_told_what_is_missing(folder, tmp_path):
    with pytest.raises(Problem, match="there is no such folder, and it cannot be the name of a model"):
        convert(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(Problem, match="holds no pickled weights"):
        convert(folder, tmp_path / "out")
    for name in ("a.pt", "b.ckpt"):
        torch.save({"a": TABLE}, folder / name)
    with pytest.raises(Problem, match=r"holds a.pt, b.ckpt; give the file"):
        convert(folder, tmp_path / "out")
    (folder / "config.json").write_text("[]")
    with pytest.raises(Problem, match="holds no JSON object"):
        convert(folder / "a.pt", tmp_path / "out")
    (folder / "config.json").unlink()
    with pytest.raises(Problem, match="--config"):
        convert(folder / "a.pt", tmp_path / "out")


def packaged(package: str, place: str) -> Path:
    """A file or folder of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package}, whose pickled weights this reads, is not installed")
    return Path(spec.origin).parent / place


def read_plainly(path: Path) -> dict[str, torch.Tensor]:
    found = torch.load(path, weights_only=True, map_location="cpu")
    return found.get("state_dict", found)


PUBLISHED = [  # package, folder, family, its heads, tied names
    ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k", albert, {"masked", "pool"},
     {"predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
      "predictions.decoder.bias": "predictions.bias"}),
    ("rxnfp", "models/transformers/bert_ft", bert, {"pool"}, {}),
    ("rxnfp", "models/transformers/bert_ft_10k_25s", bert, {"classify"}, {}),
    ("rxnfp", "models/transformers/bert_pretrained", bert, {"masked", "next"},
     {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"}),
    ("mgm", "resources/general_model", None, set(), {"lm_head.weight": "transformer.wte.weight"}),
]  # fmt: skip


@pytest.mark.parametrize("package, place, family, heads, ties", PUBLISHED, ids=[row[1] for row in PUBLISHED])
@pytest.mark.filterwarnings("ignore:.*was left out")
def test_published_pickles_convert_whole(tmp_path, package, place, family, heads, ties):
    source = packaged(package, place)
    out = convert(source, tmp_path / "out")
    found, expected = load_tensors(out / "model.safetensors"), read_plainly(source / "pytorch_model.bin")
    assert found.keys() == expected.keys() - ties.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())
    assert all(torch.equal(found[first], expected[second]) for second, first in ties.items())
    if family:
        config = json.loads((out / "config.json").read_text())
        model = family.FAMILY.load(config, found, out).model
        assert set(model.heads) == heads
        if "masked" in heads:
            assert share_found(model, (out / "vocab.txt").read_text().split("\n")) > 0.7


REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"


def share_found(model, vocab: list[str]) -> float:
    """How many parts of a reaction are found when each in turn is hidden."""
    parts = ["[CLS]", *re.findall(r"\[[^]]+\]|>>|.", REACTION), "[SEP]"]
    ids, hidden = torch.tensor([vocab.index(part) for part in parts]), vocab.index("[MASK]")
    places = torch.arange(1, len(parts) - 1)
    tokens = Tokens.of([ids.where(torch.arange(len(parts)) != place, hidden).tolist() for place in places])
    with torch.inference_mode():
        states = model(tokens)[tokens.rows.first + places]
        guesses = model.scores("masked", states, tokens.rows).argmax(-1)
    return (guesses == ids[places]).float().mean().item()


def test_a_published_training_checkpoint_converts(tmp_path):
    source = packaged("deepsa", "model")
    config = source / "hf_text" / "config.json"
    out = convert(source, tmp_path / "out", strip="model.model.", config=config)
    found, expected = load_tensors(out / "model.safetensors"), read_plainly(source / "model.ckpt")
    assert found.keys() == {name.removeprefix("model.model.") for name in expected}
    assert {"tokenizer.json", "vocab.json", "merges.txt"} <= {path.name for path in out.iterdir()}
    body = {name: tensor for name, tensor in found.items() if not name.startswith("model.head.")}
    electra.FAMILY.load(json.loads(config.read_text()), body, out)
